#!/usr/bin/env bash
# @duckdb/node-api 1.5.6-r.1: COPY TO with (format json), and to_json(), write Infinity and NaN of a DOUBLE column as
# bare words. JSON has no such words: JSON.parse, PostgreSQL's jsonb and others refuse the whole line, while DuckDB
# reads its own file back, so a check by the writer passes. Exports as NDJSON break at the first such score or rate.
# Guess: null, as JSON.stringify writes it, or the text "Infinity"; in any case each line is JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @duckdb/node-api@1.5.6-r.1
cat >look.mjs <<'JS'
import { DuckDBInstance } from "@duckdb/node-api";
import { readFileSync } from "node:fs";

const { version } = JSON.parse(readFileSync("node_modules/@duckdb/node-api/package.json", "utf8"));
console.log(`@duckdb/node-api ${version}, Node ${process.version}`);
const instance = await DuckDBInstance.create(":memory:");
const connection = await instance.connect();
await connection.run("create table rates as select 'infinity'::double as best, 'nan'::double as mean");
await connection.run("copy rates to 'rates.ndjson' (format json)");
const line = readFileSync("rates.ndjson", "utf8").trim();
const rowsOf = async (statement) => (await connection.runAndReadAll(statement)).getRows();
const [[inStatement]] = await rowsOf("select to_json(rates) from rates");
const [[readBack]] = await rowsOf("select count(*) from read_ndjson('rates.ndjson')");
const isJson = (text) => {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
};
console.log('guess: {"best":null,"mean":null}, or texts');
console.log(`seen:  ${line}; by to_json ${inStatement}; lines that DuckDB reads back: ${readBack}`);
console.log(`JSON.parse reads the line: ${isJson(line)}`);
const isSeen = [line, inStatement].every((text) => text === '{"best":Infinity,"mean":NaN}' && !isJson(text));
process.exit(isSeen && readBack === 1n ? 0 : 1);
JS
node look.mjs
