//! Made by known.py: SHA-256 of each message.

use byway_fabrics::authentication::{AuthHash, DhGroup};

use crate::Known;

/// The last row's secret of the exchange begins with a byte of 0.
pub const KNOWN: [Known; 19] = [
    Known {
        hash: AuthHash::Sha256,
        group: DhGroup::Null,
        transform: 1,
        host_entropy: "host",
        messages: [
            "94c1ae5cb96cc412f4c0bdeb258172bc93a265e124814b0df2a30b01588fc9dc",
            "89018f4c9e0629eb29eae6ebb9e97b7f914c55bec973971038c73c5bd2c683b0",
            "30c1035f5a648626d62874d3ee6185971cf78fb3a4eb8d365629390403a84648",
        ],
    },
    Known {
        hash: AuthHash::Sha256,
        group: DhGroup::Ffdhe2048,
        transform: 1,
        host_entropy: "host",
        messages: [
            "2f231ac64267e123f6d0caf81f2e0b2600c40cdf103c6eae32c9d12b2381f78f",
            "82122e9d1e68ffa9f7316fa15ac60a2596fbb721a8e952c6755cf6aaebb09048",
            "ad8120822701dd2d780bc54005cb14feff285f533216b715345a622c14190a0d",
        ],
    },
    Known {
        hash: AuthHash::Sha256,
        group: DhGroup::Ffdhe3072,
        transform: 1,
        host_entropy: "host",
        messages: [
            "b868e0ba89eaa2eaf58da78d316dd9a5b216189da2fce3b3c48852d8d676eb36",
            "520cbb5f7dae7bb0ffbbb65d9895332eac05f23384df5544cca387b40517f819",
            "834563cd4b6e53ac33ae0c638da93b4adf6efd3a21f992775806b03e4e201189",
        ],
    },
    Known {
        hash: AuthHash::Sha256,
        group: DhGroup::Ffdhe4096,
        transform: 1,
        host_entropy: "host",
        messages: [
            "fe23a86308788b9ca4771968e04d3ce7627181c9e97c14c49714d48a03da6137",
            "8fd55d0171248ac7bfd497520403ce1cae5397c04cb073422843fc41951e63e9",
            "ccb7910d7381fad075fb6751091c2bd4a4f6474134da4da823ec550f75805a16",
        ],
    },
    Known {
        hash: AuthHash::Sha256,
        group: DhGroup::Ffdhe6144,
        transform: 1,
        host_entropy: "host",
        messages: [
            "aff35ed4b29b9a4b0f789eadcc533b7642162551d98cd66df18e8c980097abe4",
            "0cfb6276b76485e0354357e585b3ea4410a06f6b25db5b8b25a71a7059d84122",
            "a73b470d59ead0b37d9f0d9d34b1ce0f48e42a2e2a2f52e5b47f6a6d6ceeb965",
        ],
    },
    Known {
        hash: AuthHash::Sha256,
        group: DhGroup::Ffdhe8192,
        transform: 1,
        host_entropy: "host",
        messages: [
            "d7453f139a175dcba1424fccfabc19a42df930c471133797558757309e3e1af0",
            "b1b3850d12f0664e35000d5b12f61e51f1d5d636a69169057df6d0c9fd72e190",
            "40e431758a957180fa1d02c94e9c7da6389e1506d28bd02aaa79729d367df43a",
        ],
    },
    Known {
        hash: AuthHash::Sha384,
        group: DhGroup::Null,
        transform: 2,
        host_entropy: "host",
        messages: [
            "c34a4bfcf8a8a23300e7880d2c1257333004595ae11ddd8266cd26ed16b3b9e3",
            "31a77e3b893d72373473fe7bff6a18630ff3eda71b49b53e22e6dd8879bc032c",
            "2d74f60739a2e511321e2ed5556c07f4c52e7d4dee98a19e863ddb8ffb6f19f2",
        ],
    },
    Known {
        hash: AuthHash::Sha384,
        group: DhGroup::Ffdhe2048,
        transform: 2,
        host_entropy: "host",
        messages: [
            "975a06911849e60a9866471de1b79f113d8bfe070d1487d72707359824f3b476",
            "b58a1dbe6d588d76439aa208cb9a831253a6633a56f348e71bcc09f743a5ae54",
            "9001b3c6343a853a22a7cb09afaa0d76fb4ef18a5b36af22d9fe46adfe4a3022",
        ],
    },
    Known {
        hash: AuthHash::Sha384,
        group: DhGroup::Ffdhe3072,
        transform: 2,
        host_entropy: "host",
        messages: [
            "83a1a29de823a3b7b618f02c1dfac9977fb1dc0a4dc17f16e33981589f20efee",
            "f65955cdb851c715df368ea0bcfe730bc2bcb7a835c843186c667856d091e626",
            "6ef28fc1534839f714d54fb162e91d23c32cd374b1fe926e187d65773981bffe",
        ],
    },
    Known {
        hash: AuthHash::Sha384,
        group: DhGroup::Ffdhe4096,
        transform: 2,
        host_entropy: "host",
        messages: [
            "aeceb74885893194bee00a195ded4d9efcbd9750c75691b5b63dfc91b574b631",
            "2d48eacac7e225df990744393943ef4771215eb77e29bc36b18e2d4960c57a4f",
            "ca7ceda0b4a6e7254dc1e6a200d4991dc8866513f91e5cab1ce2679120a9e445",
        ],
    },
    Known {
        hash: AuthHash::Sha384,
        group: DhGroup::Ffdhe6144,
        transform: 2,
        host_entropy: "host",
        messages: [
            "e3b342549277cca76a25151837ee3cfb1da107dfd71aa57afa2d45dc8eb2fd94",
            "003dc91b9084805d2aedac514e66ceef8422a32440407fbcb2bc231d0bcfa7ba",
            "863a033dceaf8ba4f714220d86be6287f5883819c2c70ed62b228e5b22af93e3",
        ],
    },
    Known {
        hash: AuthHash::Sha384,
        group: DhGroup::Ffdhe8192,
        transform: 2,
        host_entropy: "host",
        messages: [
            "0bc4dffab7d6ee47562f73f0c722e76c97cece6e373cb2cd105b6047ccea9512",
            "ddb241a4ad09a06ed3dcd310aedd3e2837cd38ae0334f32a57a0a59d08ac3fdc",
            "44075b4bb7e1322847ecb1a0d4b5add1296852e9544d5a8278e990b1583d0b60",
        ],
    },
    Known {
        hash: AuthHash::Sha512,
        group: DhGroup::Null,
        transform: 3,
        host_entropy: "host",
        messages: [
            "e4be5791fc94326650b6256ece1bbf851610dde728666d535bbb92965b50eabb",
            "51bd8d357f7b2e0b61530d5381d6ab91fb4750cba9c6e39b7999c3eb1ee95f9f",
            "5bac94e8d7d14de7d3c93fa61bcf1a45977e26119d389101655fb0ffc95318d7",
        ],
    },
    Known {
        hash: AuthHash::Sha512,
        group: DhGroup::Ffdhe2048,
        transform: 3,
        host_entropy: "host",
        messages: [
            "5f265998da6af0615fb90273abf96c2d0a3a76943113f5730bf758c0b215076d",
            "17e9e8a56617344fa674d4a92c4ee9dde3fd8d27665f28c37aa32f2c29302304",
            "5618513a6e6e3a807b550508dea8b0195c5554b2569e6267ccbde4b4cf6db46a",
        ],
    },
    Known {
        hash: AuthHash::Sha512,
        group: DhGroup::Ffdhe3072,
        transform: 3,
        host_entropy: "host",
        messages: [
            "0030b8eaebc3887e8099122a22eacc979cf3e6fc0fa1c5f1a68d749449d1ce28",
            "d1bdca4cb4d62f0e99a16e08cc340767431bbe7900b77b3e66ecae09838472d5",
            "5416205a4bb206e3e56721714a2d30f942a85606f5d191742b63fa92424e12dd",
        ],
    },
    Known {
        hash: AuthHash::Sha512,
        group: DhGroup::Ffdhe4096,
        transform: 3,
        host_entropy: "host",
        messages: [
            "68e7866295d5929cc7efa3892a41109adf0d009c2aaac86a3d5160357a80873e",
            "d35d611fb2e8289d14eff66cc7f6f61570b47ba1725ce14c6dadd1735c856f49",
            "306b5e1a14fa61c46f5f7e8c5bd4e68d5566536f5ecc720b3a896c4ff5256612",
        ],
    },
    Known {
        hash: AuthHash::Sha512,
        group: DhGroup::Ffdhe6144,
        transform: 3,
        host_entropy: "host",
        messages: [
            "58c8878666bd1f4a3be131e8e1292a37135578143088a0bf692cf34611ad8a30",
            "f39e39b506e4a273600f249411ea3baf4b87b38eb33c076f189699e9d2e5db69",
            "9e10a8f45453e3685f176bfee797f9a191c124ee8657054a62777f1f588fff98",
        ],
    },
    Known {
        hash: AuthHash::Sha512,
        group: DhGroup::Ffdhe8192,
        transform: 3,
        host_entropy: "host",
        messages: [
            "b23f33a6dcbf18f24d2ffa6de1931430320c2c2106400d192cba6a9bfd2f69fd",
            "c4d5d0c20509686954c3abfa93a84df90d55137ac2dfce06acba5bb0920e0d47",
            "8c73e3abfe293e683d205e7f6d213168671183a01b8c7b19d1cb7edd3f1651a1",
        ],
    },
    Known {
        hash: AuthHash::Sha256,
        group: DhGroup::Ffdhe2048,
        transform: 0,
        host_entropy: "host 116",
        messages: [
            "2f231ac64267e123f6d0caf81f2e0b2600c40cdf103c6eae32c9d12b2381f78f",
            "1badc3a3c7baae9bd341f6b4b2719f2ea2756edf45c1c524ffdf5a609a637067",
            "0f63b6d6c41886b296e9acc9d78f17cfbc2ba60312781f31a866e6c23b0a19b7",
        ],
    },
];

/// Bytes that were random, in hexadecimal, by their name.
pub const ENTROPY: [(&str, &str); 3] = [
    (
        "controller",
        "a61e9ddd002223094abffcc945e23628ca306cf7755d90a3713768c88fd670d4de079cc91b0a00f5816102e8d2ee7f61eeb6bb989a4ca7511165a0d44fb27877af2d8030ffc52c4bfa50bccc469c566685b9c442816ea50682a3bfdbc4a128e2eb8baf7c91cb98443a7c41916a8c83ede5176788a790eae0094a171a6e77d96435a1da86",
    ),
    (
        "host",
        "9b7e5c50d2b62a1c4ab1f2c77935f9a9a068c8a8b374f8d42fb364d712af2014eec7b15b4b4475bdfab4a91a8574694a55b82a063fbf25ed12bdcd5822bf3750935e1d72a5430e7b22d1bb4cc80222dac4515e54845f35d46e82db3fcdcde0a15db78de689675f5341b397b9d31884d3679bcae84572cf927efd61c8d63ea9525717bc90",
    ),
    (
        "host 116",
        "7f00fbcd91bfaa6daef7a2776f02b00674e42e7970ad3b585914d341d2cd65efb5521cbeae7408eb402f72cc6e1f4cf6d4f212514dadc2de1af6e8428a2fa411dfac8b264bd86ca1f851ccedc04596f1b861d1646786357de4574f8bec9ed16f6dbbfb5a24f5dfde1cc3444c2f6215e69606c5cad7b8cfcf053a3cea2d04e66d69225c7b",
    ),
];

/// Secrets of host and controller, by their hash.
pub const SECRETS: [[&str; 2]; 4] = [
    [
        "DHHC-1:00:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTRAW5M3VwFQrHqufr636yrWHm06A==:",
        "DHHC-1:00:3SE8LEh6fuQLu2wrUF6in01zfvvn2LYoW7ZZ4Rg4ke+NkvJ7S+3b+jBHaUOA8dKj5X/5SQ==:",
    ],
    [
        "DHHC-1:01:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTjQ9PD:",
        "DHHC-1:01:3SE8LEh6fuQLu2wrUF6in01zfvvn2LYoW7ZZ4Rg4ke/5fP86:",
    ],
    [
        "DHHC-1:02:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTRAW5M3VwFQrHqufr636yrWHm06A==:",
        "DHHC-1:02:3SE8LEh6fuQLu2wrUF6in01zfvvn2LYoW7ZZ4Rg4ke+NkvJ7S+3b+jBHaUOA8dKj5X/5SQ==:",
    ],
    [
        "DHHC-1:03:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTRAW5M3VwFQrHqufr636yr7q7wgbVpI+72I4wRmXNq9U70cD4=:",
        "DHHC-1:03:3SE8LEh6fuQLu2wrUF6in01zfvvn2LYoW7ZZ4Rg4ke+NkvJ7S+3b+jBHaUOA8dKjl64PFn1cTVd94giUzFok0CVxvoY=:",
    ],
];
