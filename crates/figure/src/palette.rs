//! One look for each name: colour, mark and dash mean the same method or engine in every figure.
//!
//! Colours are those of Okabe and Ito ("Color Universal Design", 2008) where there are enough, and lighter or darker relatives
//! for variants of a method. Names that stand beside one another differ in lightness too, and lines never by colour alone.

/// Red, green and blue, as sRGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// Of axes and labels.
    pub(crate) const INK: Self = Self(0x33, 0x33, 0x33);
    /// Of lines across a plot.
    pub(crate) const GRID: Self = Self(0xe2, 0xe2, 0xe2);
    /// Behind everything.
    pub(crate) const PAPER: Self = Self(0xff, 0xff, 0xff);
    /// Of targets.
    pub(crate) const TARGET: Self = Self(0x55, 0x55, 0x55);

    /// As CSS and SVG have it.
    pub fn css(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// Red, green and blue from 0 to 1.
    pub(crate) fn parts(self) -> [f32; 3] {
        [self.0, self.1, self.2].map(|part| f32::from(part) / 255.0)
    }

    /// The same hue at two thirds of the light.
    fn darker(self) -> Self {
        let darker = |part: u8| (u16::from(part) * 2 / 3) as u8;
        Self(darker(self.0), darker(self.1), darker(self.2))
    }

    /// What it becomes on a dark page.
    pub(crate) fn on_dark(self) -> Self {
        match self {
            Self::PAPER => Self(0x16, 0x1b, 0x22),
            Self::INK => Self(0xdd, 0xdd, 0xdd),
            Self::GRID => Self(0x36, 0x3c, 0x44),
            _ if self.luminance() < 0.25 => {
                let lighter = |part: u8| part + ((255 - part) as f64 * 0.45) as u8;
                Self(lighter(self.0), lighter(self.1), lighter(self.2))
            }
            _ => self,
        }
    }

    /// Red, green and blue as light, from 0 to 1 (IEC 61966-2-1).
    pub(crate) fn linear(self) -> [f64; 3] {
        [self.0, self.1, self.2].map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// Relative luminance, from 0 to 1 (ITU-R BT.709).
    pub(crate) fn luminance(self) -> f64 {
        let [red, green, blue] = self.linear();
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
}

/// What the values of a series are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Measured, or counted, in this run.
    #[default]
    Measured,
    /// Computed by a model or by a paper's rule from what was measured: broken, with hollow marks.
    Modelled,
    /// Of another run, build or peer that the measured one is compared with: broken, with hollow marks.
    Earlier,
    /// What was aimed at: a grey broken line without marks.
    Target,
}

impl Role {
    /// As a column of a table has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Earlier => "earlier",
            Self::Target => "target",
        }
    }
}

/// Outline of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkShape {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle that points up.
    Up,
    /// A triangle that points down.
    Down,
    /// A square on its corner.
    Diamond,
    /// An ×.
    Cross,
    /// A +.
    Plus,
}

/// A mark at each point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its outline.
    pub shape: MarkShape,
    /// Whether the paper shows within.
    pub hollow: bool,
}

impl Mark {
    /// Whether hollowing it changes nothing.
    fn shows_paper(self) -> bool {
        self.hollow || matches!(self.shape, MarkShape::Cross | MarkShape::Plus)
    }
}

/// How a line is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dash {
    /// Not at all.
    Solid,
    /// Long strokes.
    Long,
    /// Short strokes.
    Short,
    /// Long and short strokes by turns.
    Mixed,
}

impl Dash {
    /// Lengths of strokes and gaps, in pixels.
    pub(crate) fn lengths(self) -> &'static [f32] {
        match self {
            Self::Solid => &[],
            Self::Long => &[8.0, 4.0],
            Self::Short => &[2.5, 3.0],
            Self::Mixed => &[8.0, 3.0, 2.0, 3.0],
        }
    }
}

/// How a name is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Of line, mark and bar.
    pub colour: Colour,
    /// At each point.
    pub mark: Mark,
    /// Between points.
    pub dash: Dash,
}

const fn entry(
    name: &'static str,
    colour: u32,
    shape: MarkShape,
    hollow: bool,
    dash: Dash,
) -> (&'static str, Look) {
    let colour = Colour((colour >> 16) as u8, (colour >> 8) as u8, colour as u8);
    (name, Look { colour, mark: Mark { shape, hollow }, dash })
}

/// Transfer methods: variants of a method have its hue and a broken line.
const METHODS: [(&str, Look); 14] = [
    entry("prp", 0x33_33_33, MarkShape::Square, false, Dash::Solid),
    entry("sgl", 0x99_99_99, MarkShape::Circle, true, Dash::Short),
    entry("prp+tail", 0x8c_5a_2b, MarkShape::Square, true, Dash::Long),
    entry("piggyback", 0xd5_5e_00, MarkShape::Cross, false, Dash::Long),
    entry("piggyback-pt", 0xf0_a0_60, MarkShape::Diamond, true, Dash::Mixed),
    entry("inline", 0x00_72_b2, MarkShape::Up, false, Dash::Solid),
    entry("hybrid", 0x56_b4_e9, MarkShape::Down, true, Dash::Long),
    entry("cxl", 0x00_6b_4f, MarkShape::Diamond, false, Dash::Solid),
    entry("cxl+piggyback", 0x3f_c0_92, MarkShape::Plus, false, Dash::Mixed),
    entry("adaptive", 0xaa_33_77, MarkShape::Circle, false, Dash::Mixed),
    entry("adaptive-p", 0xaa_33_77, MarkShape::Circle, false, Dash::Short),
    entry("adaptive-c", 0xd9_8c_b8, MarkShape::Up, true, Dash::Short),
    entry("bulk", 0xb8_9b_00, MarkShape::Down, false, Dash::Solid),
    entry("byte-store", 0x6a_51_a3, MarkShape::Square, true, Dash::Short),
];

/// Engines: ours, other stores, and what transparent mappings stand beside.
const ENGINES: [(&str, Look); 14] = [
    entry("byway", 0x00_72_b2, MarkShape::Circle, false, Dash::Solid),
    entry("fjall", 0xe6_9f_00, MarkShape::Square, true, Dash::Long),
    entry("lmdb", 0x33_33_33, MarkShape::Up, false, Dash::Short),
    entry("rocksdb", 0xcc_79_a7, MarkShape::Diamond, false, Dash::Mixed),
    entry("fio", 0xd5_5e_00, MarkShape::Cross, false, Dash::Long),
    entry("qemu", 0x00_9e_73, MarkShape::Down, true, Dash::Short),
    entry("no log", 0x99_99_99, MarkShape::Diamond, true, Dash::Short),
    entry("file system", 0x33_33_33, MarkShape::Square, false, Dash::Long),
    entry("absorbed", 0x56_b4_e9, MarkShape::Up, true, Dash::Mixed),
    entry("DAX-resident", 0x00_72_b2, MarkShape::Circle, false, Dash::Solid),
    entry("bare socket", 0x99_99_99, MarkShape::Square, true, Dash::Short),
    entry("in this process", 0x33_33_33, MarkShape::Up, false, Dash::Long),
    entry("fjall-blob", 0x99_6b_00, MarkShape::Plus, false, Dash::Long),
    entry("lmdb-1000", 0x99_99_99, MarkShape::Down, false, Dash::Short),
];

/// For names that have no look of their own, by place. Neighbours differ in lightness.
const OTHERS: [(&str, Look); 8] = [
    entry("", 0x00_72_b2, MarkShape::Circle, false, Dash::Solid),
    entry("", 0xe6_9f_00, MarkShape::Square, true, Dash::Long),
    entry("", 0x33_33_33, MarkShape::Up, false, Dash::Short),
    entry("", 0x56_b4_e9, MarkShape::Diamond, true, Dash::Mixed),
    entry("", 0xb3_4a_00, MarkShape::Cross, false, Dash::Solid),
    entry("", 0xcc_79_a7, MarkShape::Down, true, Dash::Long),
    entry("", 0x55_22_66, MarkShape::Plus, false, Dash::Short),
    entry("", 0x00_9e_73, MarkShape::Square, false, Dash::Mixed),
];

/// The look of a name, or the one at a place in a list of others. What stands behind a colon explains a name.
pub fn look(name: &str, place: usize) -> Look {
    let name = name.split_once(": ").map_or(name, |(name, _)| name);
    let named = METHODS.iter().chain(&ENGINES).find(|(known, _)| *known == name);
    named.map_or(OTHERS[place % OTHERS.len()].1, |(_, look)| *look)
}

/// The look of a name in a role.
pub(crate) fn look_in(role: Role, name: &str, place: usize) -> Look {
    let look = look(name, place);
    match role {
        Role::Measured => look,
        Role::Modelled | Role::Earlier => Look {
            // A model keeps its method's colour; an earlier run stands beside the measured one under the same name.
            colour: if role == Role::Earlier && look.mark.shows_paper() {
                look.colour.darker()
            } else {
                look.colour
            },
            mark: Mark { hollow: true, ..look.mark },
            dash: Dash::Long,
        },
        Role::Target => Look { colour: Colour::TARGET, dash: Dash::Long, ..look },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lightness and colour opponents of CIE L*a*b* under D65.
    fn lab(linear: [f64; 3]) -> [f64; 3] {
        let [red, green, blue] = linear;
        let cube = |part: f64| if part > 0.008_856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 };
        let x = cube((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505);
        let y = cube(0.2126 * red + 0.7152 * green + 0.0722 * blue);
        let z = cube((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn lightness(colour: Colour) -> f64 {
        lab(colour.linear())[0]
    }

    /// What eyes without one kind of cone see (Machado, Oliveira, Fernandes 2009, severity 1).
    fn seen(colour: Colour, matrix: [[f64; 3]; 3]) -> [f64; 3] {
        let from = colour.linear();
        let row = |row: [f64; 3]| (row[0] * from[0] + row[1] * from[1] + row[2] * from[2]).clamp(0.0, 1.0);
        lab([row(matrix[0]), row(matrix[1]), row(matrix[2])])
    }

    const PROTANOPIA: [[f64; 3]; 3] = [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ];
    const DEUTERANOPIA: [[f64; 3]; 3] = [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ];

    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    fn pairs<'a>(names: &'a [(&'a str, Look)]) -> impl Iterator<Item = [&'a (&'a str, Look); 2]> {
        names
            .iter()
            .enumerate()
            .flat_map(move |(place, one)| names[place + 1..].iter().map(move |two| [one, two]))
    }

    #[test]
    fn neighbours_differ_in_greyscale() {
        for names in [&METHODS[..8], &ENGINES[..4], &ENGINES[6..10], &OTHERS[..]] {
            for pair in names.windows(2) {
                let distance = (lightness(pair[0].1.colour) - lightness(pair[1].1.colour)).abs();
                assert!(distance >= 10.0, "{} {}: {distance:.1} of L*", pair[0].0, pair[1].0);
            }
        }
    }

    #[test]
    fn colours_of_one_figure_differ_to_the_colour_blind() {
        let readme = [METHODS[0], METHODS[1], METHODS[3], METHODS[5]];
        for names in [&readme[..], &ENGINES[..4], &ENGINES[6..10], &OTHERS[..]] {
            for [one, two] in pairs(names) {
                for kind in [PROTANOPIA, DEUTERANOPIA] {
                    let distance = distance(seen(one.1.colour, kind), seen(two.1.colour, kind));
                    assert!(
                        distance >= 10.0,
                        "{} {:?} {} {:?}: {distance:.1}",
                        one.0,
                        one.1.colour,
                        two.0,
                        two.1.colour
                    );
                }
            }
        }
    }

    #[test]
    fn no_two_names_of_a_list_differ_by_colour_alone() {
        for names in [&METHODS[..], &ENGINES[..4], &ENGINES[6..10], &OTHERS[..]] {
            for [one, two] in pairs(names) {
                assert!((one.1.mark, one.1.dash) != (two.1.mark, two.1.dash), "{} {}", one.0, two.0);
            }
        }
    }

    #[test]
    fn a_name_looks_the_same_at_every_place() {
        assert_eq!(look("inline", 0), look("inline", 5));
        assert_ne!(look("something else", 0), look("something else", 1));
    }

    #[test]
    fn an_earlier_run_looks_unlike_the_measured_one_without_its_line() {
        for (name, measured) in METHODS.iter().chain(&ENGINES) {
            let earlier = look_in(Role::Earlier, name, 0);
            assert!((earlier.colour, earlier.mark) != (measured.colour, measured.mark), "{name}");
        }
    }

    #[test]
    fn dark_pages_show_light_lines() {
        for (name, look) in METHODS.iter().chain(&ENGINES) {
            assert!(look.colour.on_dark().luminance() > 0.1, "{name}");
        }
    }

    #[test]
    fn every_engine_of_the_contest_has_a_look_of_its_own() {
        let names = ["byway", "fjall", "fjall-blob", "lmdb", "lmdb-1000", "rocksdb"];
        let looks = names.map(|name| look(name, 0));
        for (place, one) in looks.iter().enumerate() {
            assert!(!looks[place + 1..].contains(one), "{}", names[place]);
        }
    }
}
