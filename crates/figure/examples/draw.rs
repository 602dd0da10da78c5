//! Draws figures that are described in JSON, one a line: `draw FOLDER < FIGURES` writes `ID.svg`, `ID.csv` and `ID.pdf` for each.
//!
//! A line has `id`, `title`, `caption`, `source` and one plot. `kind` is `lines` (axes `x`, `y`; points `[x, y]` or
//! `[x, y, low, high]`), `dots` (`groups`, axis `value`; values null, `v` or `[v, low, high]`) or `bars` (`groups`, quantity `value`).

use std::error::Error;
use std::io::BufRead;
use std::path::PathBuf;

use byway_figure::{
    Axis, Bars, Dots, Figure, GroupSeries, Lines, Plot, Point, Quantity, Role, Scale, Series, Source, Value,
};
use serde_json::Value as Json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn text(json: &Json, field: &str) -> Result<String> {
    Ok(json[field].as_str().ok_or_else(|| format!("{field} is no text in {json}"))?.to_owned())
}

fn list<'a>(json: &'a Json, field: &str) -> Result<&'a Vec<Json>> {
    json[field].as_array().ok_or_else(|| format!("{field} is no list in {json}").into())
}

fn numbers(json: &Json) -> Result<Vec<f64>> {
    let one = |json: &Json| json.as_f64().ok_or_else(|| format!("{json} is no number").into());
    match json.as_array() {
        Some(all) => all.iter().map(one).collect(),
        None => Ok(vec![one(json)?]),
    }
}

fn value(numbers: &[f64]) -> Result<Value> {
    match *numbers {
        [middle] => Ok(middle.into()),
        [middle, low, high] => Ok(Value::spread(middle, low, high)),
        _ => Err("a value is one number, or three: the middle, the least, the most".into()),
    }
}

fn quantity(json: &Json) -> Result<Quantity> {
    Ok(Quantity::new(text(json, "name")?, text(json, "unit")?))
}

fn axis(json: &Json) -> Result<Axis> {
    let scale = match text(json, "scale")?.as_str() {
        "linear" => Scale::Linear,
        "log2" => Scale::Log2,
        "log10" => Scale::Log10,
        "percentile" => Scale::Percentile,
        other => return Err(format!("no scale is called {other}").into()),
    };
    Ok(Axis::new(quantity(json)?, scale))
}

fn role(json: &Json) -> Result<Role> {
    match json["role"].as_str().unwrap_or("measured") {
        "measured" => Ok(Role::Measured),
        "modelled" => Ok(Role::Modelled),
        "earlier" => Ok(Role::Earlier),
        "target" => Ok(Role::Target),
        other => Err(format!("no role is called {other}").into()),
    }
}

fn line(json: &Json) -> Result<Series> {
    let point = |json: &Json| -> Result<Point> {
        let numbers = numbers(json)?;
        let (x, y) = numbers.split_first().ok_or("a point has two numbers")?;
        Ok(Point { x: *x, y: value(y)? })
    };
    let points: Result<Vec<Point>> = list(json, "points")?.iter().map(point).collect();
    Ok(Series::new(text(json, "name")?, role(json)?, points?))
}

fn group(json: &Json) -> Result<GroupSeries> {
    let one = |json: &Json| if json.is_null() { Ok(None) } else { value(&numbers(json)?).map(Some) };
    let values: Result<Vec<Option<Value>>> = list(json, "values")?.iter().map(one).collect();
    Ok(GroupSeries::new(text(json, "name")?, role(json)?, values?))
}

fn plot(json: &Json) -> Result<Plot> {
    let all = list(json, "series")?;
    let groups = || -> Result<Vec<String>> {
        list(json, "groups")?
            .iter()
            .map(|name| Ok(name.as_str().ok_or("a group is a text")?.to_owned()))
            .collect()
    };
    Ok(match text(json, "kind")?.as_str() {
        "lines" => {
            let empty = Lines::new(axis(&json["x"])?, axis(&json["y"])?);
            all.iter().try_fold(empty, |plot, series| Result::Ok(plot.with(line(series)?)))?.into()
        }
        "dots" => {
            let empty = Dots::new(groups()?, axis(&json["value"])?);
            all.iter().try_fold(empty, |plot, series| Result::Ok(plot.with(group(series)?)))?.into()
        }
        "bars" => {
            let empty = Bars::new(groups()?, quantity(&json["value"])?);
            all.iter().try_fold(empty, |plot, series| Result::Ok(plot.with(group(series)?)))?.into()
        }
        other => return Err(format!("no plot is called {other}").into()),
    })
}

fn source(json: &Json) -> Source {
    let optional = |field: &str| json[field].as_str().map(str::to_owned);
    let source = Source::new(optional("command").unwrap_or_default());
    let source = source.with_origin(optional("machine"), optional("commit"), optional("date"));
    match optional("spread") {
        Some(spread) => source.with_spread(spread),
        None => source,
    }
}

fn figure(json: &Json) -> Result<Figure> {
    let figure = Figure::new(text(json, "id")?, text(json, "title")?, plot(json)?, source(&json["source"]));
    Ok(figure.with_caption(text(json, "caption")?).with_dark_colours())
}

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("say which folder to draw into")?);
    std::fs::create_dir_all(&folder)?;
    for line in std::io::stdin().lock().lines() {
        let figure = figure(&serde_json::from_str(&line?)?)?;
        for file in figure.files()? {
            std::fs::write(folder.join(&file.name), &file.bytes)?;
        }
    }
    Ok(())
}
