"""DuckDB over Parquet objects of a device: the same rows as over the file, with less of it handed over."""

import datetime
import decimal
import subprocess
import sys
from pathlib import Path

import pytest

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).parent.parent.parent.parent
PROGRAM = ROOT / "integrations" / "duckdb" / "byway_duckdb.py"
LAGHOS = ROOT / "tests" / "data" / "laghos" / "test4.parquet"
sys.path.insert(0, str(PROGRAM.parent))

import byway_duckdb  # noqa: E402

# Rows of the mesh that a box takes; the box of the published query takes none of the small files.
BOX = "SELECT min(vertex_id) AS id, avg(e) AS e FROM mesh WHERE x > 2.5 AND x < 2.6 AND y < 0.1 AND z < 0.1 GROUP BY vertex_id ORDER BY e, id"


def words():
    """A table with a column of each type that filters reach the dataset for, NULLs and NaNs among them."""
    rows = 200
    each = lambda make: [None if row % 11 == 3 else make(row) for row in range(rows)]  # noqa: E731
    day = datetime.date(1995, 1, 1)
    return pa.table(
        {
            "i": pa.array(each(lambda row: row % 17 - 5), pa.int32()),
            "f": pa.array(each(lambda row: float("nan") if row % 13 == 0 else row / 8), pa.float64()),
            "d": pa.array(each(lambda row: decimal.Decimal(row).scaleb(-2)), pa.decimal128(15, 2)),
            "t": pa.array(each(lambda row: ["bolt", 'a "nut"', "it's", "back\\slash", "line\nbreak"][row % 5]), pa.string()),
            "y": pa.array(each(lambda row: day + datetime.timedelta(days=row)), pa.date32()),
            "m": pa.array(each(lambda row: datetime.datetime(1995, 1, 1, row % 24)), pa.timestamp("us")),
            "k": pa.array(each(lambda row: row % 3 == 0), pa.bool_()),
        }
    )


class Watched(byway_duckdb.DeviceTable):
    """A table that notes what it asks the device for, and how many rows came."""

    asked = []
    rows = 0

    def where(self, *conditions):
        return Watched(self._query, self._conditions + conditions)

    def _ask(self, columns, conditions):
        rows = super()._ask(columns, conditions)
        Watched.asked.append((columns, [*self._conditions, *conditions]))
        Watched.rows += rows.num_rows
        return rows


@pytest.fixture
def database():
    Watched.asked, Watched.rows = [], 0
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@pytest.fixture
def mesh(ram, database):
    ram.kv[b"mesh"] = LAGHOS.read_bytes()
    return Watched.of_value(ram.kv, b"mesh")


@pytest.fixture
def typed(ram, database, tmp_path):
    # DuckDB concludes from stated extremes that no value is greater, though they leave NaNs out, which are.
    pq.write_table(words(), tmp_path / "words.parquet", row_group_size=50, write_statistics=False)
    ram.kv[b"words"] = (tmp_path / "words.parquet").read_bytes()
    return Watched.of_value(ram.kv, b"words"), str(tmp_path / "words.parquet")


def of_file(database, sql, name, path):
    return database.execute(sql.replace(f"FROM {name}", f"FROM '{path}' AS {name}")).fetchall()


def test_conditions_on_floats_are_evaluated_by_the_device(database, mesh):
    rows = byway_duckdb.execute(database, BOX, mesh=mesh).fetchall()
    assert rows == of_file(database, BOX, "mesh", LAGHOS) and rows
    ((columns, conditions),) = Watched.asked
    assert set(columns) == {"vertex_id", "e", "x", "y", "z"} and len(conditions) == 4
    assert 0 < Watched.rows < 100


def test_projection_and_filters_of_duckdb_reach_the_device(database, mesh):
    database.register("mesh", mesh)
    sql = "SELECT count(*), max(e) FROM mesh WHERE vertex_id BETWEEN 10 AND 20"
    assert database.execute(sql).fetchall() == of_file(database, sql, "mesh", LAGHOS)
    ((columns, conditions),) = Watched.asked
    assert columns == ["e"] and len(conditions) == 1 and "vertex_id" in conditions[0]


@pytest.mark.parametrize(
    "condition",
    [
        "i > 3", "i <> 2 AND i IS NOT NULL", "i IS NULL", "i = 1 OR i = 3", "i IN (1, 3, 5)", "i BETWEEN -2 AND 2 AND f < 9",
        "f > 20", "f >= 'nan'::DOUBLE", "NOT (f < 3)", "d > 0.55", "d = 1.10 OR d < 0.02", "y >= DATE '1995-03-01'",
        "m < TIMESTAMP '1995-01-01 05:00:00'", "k", "k = false", "t = 'it''s'", "t = 'a \"nut\"'", "t = 'back\\slash'",
        "t = 'line\nbreak'", "t LIKE 'b%'", "t IN ('bolt', 'it''s')", "length(t) = 4", "i + 1 > 3", "t > 'b' AND i < 4",
        "i > (SELECT 1)", "i % 2 = 1 AND y < DATE '1995-02-01'",
    ],
)  # fmt: skip
def test_rows_are_those_of_the_file(database, typed, condition):
    table, path = typed
    sql = f"SELECT i, f::VARCHAR, d, t, y, m, k FROM words WHERE {condition} ORDER BY ALL"
    wanted = of_file(database, sql, "words", path)
    assert byway_duckdb.execute(database, sql, words=table).fetchall() == wanted
    # Without the conditions of WHERE: by what DuckDB hands over alone.
    database.register("words", table)
    assert database.execute(sql).fetchall() == wanted


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM words JOIN (VALUES (1), (3)) AS v(n) ON words.i = v.n WHERE words.f > 3",
        "WITH words AS (SELECT 7 AS i) SELECT i FROM words WHERE i > 3",
        "SELECT sum(n) FROM (SELECT count(*) AS n FROM words WHERE i > 3 GROUP BY t)",
        "SELECT i + 1 AS j FROM words WHERE j > 10 ORDER BY j",
        "SELECT a.i FROM words AS a WHERE a.i > 9 AND f < 20 ORDER BY ALL",
        "SELECT count(*) FROM words",
        "FROM words SELECT max(i) WHERE k",
    ],
)
def test_joins_aliases_and_nested_selects_give_the_same(database, typed, sql):
    table, path = typed
    rows = byway_duckdb.execute(database, sql, words=table).fetchall()
    with duckdb.connect() as other:
        other.execute(f"CREATE VIEW words AS SELECT * FROM '{path}'")
        assert rows == other.execute(sql).fetchall()


def test_condition_that_the_device_refuses_stays_with_duckdb(database, typed):
    table, _ = typed
    assert table.takes("i > 3") and not table.takes("length(t) = 4")
    rows = byway_duckdb.execute(database, "SELECT i FROM words WHERE length(t) = 4 AND i > 3", words=table).fetchall()
    ((_, conditions),) = Watched.asked
    assert rows and not any("length" in each for each in conditions)


def test_an_object_in_blocks_is_a_table_too(ram, database):
    mesh = LAGHOS.read_bytes()
    blocks = -(-len(mesh) // ram.nvm.lba_bytes)
    ram.nvm[0:blocks] = mesh + bytes(blocks * ram.nvm.lba_bytes - len(mesh))
    table = byway_duckdb.DeviceTable.of_blocks(ram.nvm, 0, len(mesh))
    rows = byway_duckdb.execute(database, BOX, mesh=table).fetchall()
    assert rows == of_file(database, BOX, "mesh", LAGHOS)


def test_the_program_runs_without_arguments():
    done = subprocess.run([sys.executable, "-W", "error", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    device, whole = (int(line.split()[0]) for line in done.stdout.splitlines()[-2:])
    assert device < whole / 10
