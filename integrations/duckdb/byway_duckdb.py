"""Parquet objects in devices of Byway as tables of DuckDB: the device selects columns and rows, DuckDB does the rest.

    python byway_duckdb.py [URI KEY 'SELECT … FROM object …']

Without arguments it makes a device in memory, and prints what two ways to the same answer move over its link.
"""

import json
import os
import re
import sys
import tempfile

import byway
import duckdb
import pyarrow as pa
import pyarrow.dataset

COMPARISON = re.compile(r'\((\w+) (==|!=|<=|>=|<|>) ("(?:[^"\\]|\\["\\])*"|[^"()]+)\)')
NULL_CHECK = re.compile(r"is_(null|valid)\((\w+)(?:, \{nan_is_null=false\})?\)")
JUNCTION = re.compile(r" (and|or) ")
OPERATORS = {"==": "=", "!=": "<>"}


class DeviceTable(pyarrow.dataset.Dataset):
    """A Parquet object in a device. DuckDB scans it as it scans datasets of Arrow: `duckdb.sql("SELECT … FROM table")`."""

    def __init__(self, query, conditions=()):
        """`query` executes SQL in the device: its text, and whether it is explained instead; rows fulfil all `conditions`."""
        self._query = query
        self._conditions = tuple(conditions)
        self._schema = query("SELECT * FROM object LIMIT 0").schema

    @classmethod
    def of_value(cls, kv, key):
        """The value of a key."""
        return cls(lambda sql, explain=False: kv.query(key, sql, explain=True) if explain else kv.query_arrow(key, sql))

    @classmethod
    def of_blocks(cls, nvm, slba, length):
        """The `length` bytes from block `slba` on."""
        return cls(
            lambda sql, explain=False: nvm.query(slba, length, sql, explain=True) if explain else nvm.query_arrow(slba, length, sql)
        )

    @property
    def schema(self):
        """The schema of the object."""
        return self._schema

    def where(self, *conditions):
        """The rows that fulfil these conditions as well, which the device evaluates."""
        return DeviceTable(self._query, self._conditions + conditions)

    def takes(self, condition):
        """Whether the device evaluates such a condition: it explains a query with it, and reads no row."""
        try:
            self._query(f"SELECT * FROM object WHERE {condition}", explain=True)
        except byway.Error:
            return False
        return True

    def scanner(self, columns=None, filter=None, **_options):
        """What DuckDB scans: the columns that it names, and the rows that its filter takes."""
        columns = self._schema.names if columns is None else list(columns)
        try:
            rows = self._ask(columns, [] if filter is None else [sql_of(filter, self._schema)])
        except NotInSql:
            words = set(re.findall(r"\w+", str(filter)))
            wanted = [name for name in self._schema.names if name in columns or name in words]
            rows = self._ask(wanted, []).filter(filter).select(columns)
        return pyarrow.dataset.Scanner.from_batches(rows.to_batches(), schema=rows.schema)

    def _ask(self, columns, conditions):
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        where = " AND ".join(f"({each})" for each in (*self._conditions, *conditions))
        return self._query(f"SELECT {names or '*'} FROM object" + (f" WHERE {where}" if where else ""))


class NotInSql(Exception):
    """A filter of Arrow that is not put into SQL here."""


def sql_of(expression, schema):
    """A filter as DuckDB hands it to datasets of Arrow, in SQL: comparisons with constants, tests for NULL, AND, OR."""
    if not all(name.isidentifier() for name in schema.names):
        raise NotInSql
    sql, rest = condition_of(str(expression), schema)
    if rest:
        raise NotInSql
    return sql


def condition_of(text, schema):
    """The condition at the beginning of a text, in SQL, and the rest of the text."""
    if found := NULL_CHECK.match(text):
        return f'"{found[2]}" IS {"" if found[1] == "null" else "NOT "}NULL', text[found.end() :]
    if (found := COMPARISON.match(text)) and found[1] in schema.names:
        constant = constant_of(found[3], schema.field(found[1]).type)
        return f'"{found[1]}" {OPERATORS.get(found[2], found[2])} {constant}', text[found.end() :]
    if not text.startswith("("):
        raise NotInSql
    left, rest = condition_of(text[1:], schema)
    found = JUNCTION.match(rest)
    if not found:
        raise NotInSql
    right, rest = condition_of(rest[found.end() :], schema)
    if not rest.startswith(")"):
        raise NotInSql
    return f"({left} {found[1].upper()} {right})", rest[1:]


def constant_of(text, kind):
    """A constant of a column's type as Arrow prints it, in SQL."""
    types = pa.types
    if types.is_string(kind) and text.startswith('"'):
        return "'" + re.sub(r"\\(.)", r"\1", text[1:-1]).replace("'", "''") + "'"
    numeric = types.is_integer(kind) or types.is_decimal(kind)
    for is_kind, pattern, before in [
        (numeric, r"-?\d+(\.\d+)?", ""),
        (types.is_boolean(kind), "true|false", ""),
        (types.is_date(kind), r"\d{4}-\d\d-\d\d", "DATE "),
        (types.is_timestamp(kind) and kind.tz is None, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "TIMESTAMP "),
    ]:
        if is_kind and re.fullmatch(pattern, text):
            return f"{before}'{text}'" if before else text
    raise NotInSql


def execute(connection, sql, **tables):
    """Executes `sql` in DuckDB over tables of devices, by their names there.

    Of a SELECT over one of them the device evaluates each condition of WHERE that it takes, also those on floating point, which DuckDB
    hands to no dataset. DuckDB evaluates all of them again.
    """
    for name, table in tables.items():
        taken = [each for each in conditions_of(connection, sql, name) if table.takes(each)]
        connection.register(name, table.where(*taken) if taken else table)
    return connection.execute(sql)


def conditions_of(connection, sql, name):
    """The conditions that a SELECT over the table `name` alone joins by AND."""
    parsed = json.loads(value_of(connection, "SELECT json_serialize_sql(?)", sql))
    if parsed["error"] or len(parsed["statements"]) != 1:
        return []
    node = parsed["statements"][0]["node"]
    table = node.get("from_table", {})
    is_plain = node["type"] == "SELECT_NODE" and not node["cte_map"]["map"] and node["sample"] is None and node["where_clause"]
    if not is_plain or table["type"] != "BASE_TABLE" or table["table_name"] != name or table["sample"] is not None:
        return []
    where = node["where_clause"]
    parts = where["children"] if where["type"] == "CONJUNCTION_AND" else [where]
    return [text_of(connection, part) for part in parts]


def text_of(connection, condition):
    """A condition that DuckDB has parsed, as text."""
    query = "SELECT 1 FROM o WHERE "
    parsed = json.loads(value_of(connection, "SELECT json_serialize_sql(?)", query + "true"))
    parsed["statements"][0]["node"]["where_clause"] = condition
    return value_of(connection, "SELECT json_deserialize_sql(?::JSON)", json.dumps(parsed)).removeprefix(query)


def value_of(connection, sql, parameter):
    """The one value that a query gives."""
    with connection.cursor() as cursor:
        return cursor.execute(sql, [parameter]).fetchall()[0][0]


def demonstrate():
    """A query of a file that DuckDB makes, with the device's help and without it."""
    sql = "SELECT station, count(*) AS hours, max(degrees) AS most FROM weather WHERE degrees > 39.9 GROUP BY station ORDER BY station LIMIT 3"
    make = "SELECT i AS number, i % 97 AS station, (i * 7919) % 40000 / 1000 AS degrees FROM range(300000) AS rows(i)"
    with duckdb.connect() as database, tempfile.TemporaryDirectory() as folder, byway.open("embedded-ram:256M") as device:
        path = os.path.join(folder, "weather.parquet")
        database.execute(f"COPY ({make}) TO '{path}' (FORMAT parquet)")
        with open(path, "rb") as file:
            device.kv[b"weather"] = file.read()
        before = device.ledger()
        rows = execute(database, sql, weather=DeviceTable.of_value(device.kv, b"weather")).fetchall()
        between = device.ledger()
        with open(path, "wb") as file:
            file.write(device.kv[b"weather"])
        assert rows == database.execute(sql.replace("FROM weather", f"FROM '{path}'")).fetchall()
        after = device.ledger()
    print(*rows, sep="\n")
    print(f"{(between - before).wire_bytes:9} bytes on the link: the device selects columns and rows")
    print(f"{(after - between).wire_bytes:9} bytes on the link: DuckDB reads the file from it")


def main():
    if len(sys.argv) == 1:
        demonstrate()
    elif len(sys.argv) == 4:
        uri, key, sql = sys.argv[1:]
        with byway.open(uri) as device, duckdb.connect() as database:
            execute(database, sql, object=DeviceTable.of_value(device.kv, key.encode()))
            print(*database.fetchall(), sep="\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
