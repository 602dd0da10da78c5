//! Modelled time: deterministic, of one mind with the cost model, and nothing that the ledger depends on.

use byway::embedded::EmbeddedDevice;
use byway::{Method, cost};

const SIZES: [usize; 9] = [0, 32, 35, 100, 1000, 4000, 4096, 8000, 8192];

fn device(profile: &str, method: Method, options: &str) -> EmbeddedDevice {
    byway::embedded::open(&format!("ram:64M?profile={profile}&transfer={method}{options}")).unwrap()
}

#[test]
fn the_ledger_is_the_same_whether_time_is_modelled_or_not() {
    for profile in ["cosmos", "gen4x4", "gen5x8-cxl"] {
        for method in Method::CONCRETE {
            let devices =
                ["&ring=256&clock=off", "&ring=256&clock=virtual"].map(|how| device(profile, method, how));
            let mut queues = devices.each_ref().map(|device| device.kv(None).unwrap());
            for (key, size) in SIZES.into_iter().enumerate() {
                queues.iter_mut().for_each(|kv| kv.put(&[key as u8], &vec![7; size]).unwrap());
                let [off, on] = devices.each_ref().map(EmbeddedDevice::ledger);
                assert_eq!(off, on, "{profile} {method} {size}");
            }
        }
    }
}

#[test]
fn a_put_takes_the_time_and_the_bytes_that_the_cost_model_says() {
    for profile in ["cosmos", "cosmos-fitted", "gen4x4", "gen5x8-cxl"] {
        // Device memory is left out: the model supposes a value that begins on a cache line.
        for method in Method::CONCRETE.into_iter().filter(|method| !method.needs_device_memory()) {
            let device = device(profile, method, "&ring=65536&clock=virtual&flash=off");
            let mut kv = device.kv(None).unwrap();
            for (key, size) in SIZES.into_iter().enumerate() {
                let (ledger, from_ns) = (device.ledger(), device.now_ns());
                kv.put(&[key as u8], &vec![7; size]).unwrap();
                let (ledger, ns) = (device.ledger().since(&ledger), device.now_ns() - from_ns);
                let model = cost::of_put(method, size as u64, device.profile());
                assert_eq!(ledger, model.ledger, "{profile} {method} {size}");
                let model_ns = model.ps / 1000;
                // The index is probed, too, and an interrupt's place in the order of packets differs.
                let tolerance_ns = 3 + model_ns / 100;
                assert!(
                    ns.abs_diff(model_ns) <= tolerance_ns,
                    "{profile} {method} {size}: {ns} ns, {model_ns} ns"
                );
            }
        }
    }
}
