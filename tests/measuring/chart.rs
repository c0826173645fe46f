//! A chart as SVG text: lines in a frame, both axes logarithmic. Refuses to know what it shows.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 60.0;
const COLORS: [&str; 4] = ["#1b6ca8", "#c2571a", "#2e8540", "#7b3f98"];

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

pub struct Chart {
    pub title: String,
    /// Below the title: when, and on what.
    pub note: String,
    /// With their units.
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<Line>,
}

/// From a power of ten to a power of ten, on a piece of the page.
struct Axis {
    decades: std::ops::Range<i32>,
    from: f64,
    to: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let lowest = values.clone().fold(f64::INFINITY, f64::min).log10().floor() as i32;
        let highest = values.fold(0.0, f64::max).log10().ceil() as i32;
        Axis { decades: lowest..highest.max(lowest + 1), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.decades.start)) / self.decades.len() as f64;
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = (String, f64)> + '_ {
        (self.decades.start..=self.decades.end).map(|decade| {
            let places = usize::try_from(-decade).unwrap_or(0);
            let value = 10f64.powi(decade);
            (format!("{value:.places$}"), self.at(value))
        })
    }
}

impl Chart {
    pub fn svg(&self) -> Result<String, std::fmt::Error> {
        let all = || self.lines.iter().flat_map(|l| &l.points);
        let x = Axis::of(all().map(|p| p.0), LEFT, WIDTH - RIGHT);
        let y = Axis::of(all().map(|p| p.1), HEIGHT - BOTTOM, TOP);
        let mut out = String::new();
        writeln!(
            out,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="{LEFT}" y="24" font-size="16">{}</text>
<text x="{LEFT}" y="44" fill="#555">{}</text>"##,
            escaped(&self.title),
            escaped(&self.note)
        )?;
        self.frame(&mut out, &x, &y)?;
        for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
            let points: Vec<String> =
                line.points.iter().map(|p| format!("{:.1},{:.1}", x.at(p.0), y.at(p.1))).collect();
            writeln!(
                out,
                r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="2"/>"#,
                points.join(" ")
            )?;
            for (px, py) in &line.points {
                let (cx, cy) = (x.at(*px), y.at(*py));
                writeln!(out, r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="3" fill="{color}"/>"#)?;
            }
        }
        for (i, (line, color)) in self.lines.iter().zip(COLORS.iter().cycle()).enumerate() {
            let (tx, ty) = (LEFT + 14.0, TOP + 18.0 + 16.0 * i as f64);
            writeln!(out, r#"<text x="{tx}" y="{ty}" fill="{color}">{}</text>"#, escaped(&line.name))?;
        }
        writeln!(out, "</svg>")?;
        Ok(out)
    }

    fn frame(&self, out: &mut String, x: &Axis, y: &Axis) -> std::fmt::Result {
        for (label, at) in x.ticks() {
            let (top, bottom, below) = (TOP, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 18.0);
            writeln!(out, r##"<path d="M{at:.1} {top}V{bottom}" stroke="#ddd"/>"##)?;
            writeln!(out, r#"<text x="{at:.1}" y="{below}" text-anchor="middle">{label}</text>"#)?;
        }
        for (label, at) in y.ticks() {
            let (right, beside, middle) = (WIDTH - RIGHT, LEFT - 8.0, at + 4.0);
            writeln!(out, r##"<path d="M{LEFT} {at:.1}H{right}" stroke="#ddd"/>"##)?;
            writeln!(out, r#"<text x="{beside}" y="{middle:.1}" text-anchor="end">{label}</text>"#)?;
        }
        let (center, foot, half) =
            ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16.0, (TOP + HEIGHT - BOTTOM) / 2.0);
        writeln!(out, r#"<text x="{center}" y="{foot}" text-anchor="middle">{}</text>"#, escaped(self.x))?;
        writeln!(
            out,
            r#"<text transform="translate(20 {half}) rotate(-90)" text-anchor="middle">{}</text>"#,
            escaped(self.y)
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
