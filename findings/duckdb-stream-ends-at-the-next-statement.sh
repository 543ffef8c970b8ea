#!/usr/bin/env bash
# @duckdb/node-api 1.5.6-r.1: a streamed result ends as if it were complete when another statement runs on the same
# connection before its last row was read. No error is raised: `for await (const rows of result.yieldRows())` with a
# look-up per batch sees the first 2,048 rows of any table. Exports and clean-ups are cut off, and tests with fewer
# rows pass. A second connection for what happens inside of the loop gives all rows.
# Guess: all rows arrive, or the stream or the second statement is refused.
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
const ROWS = 5000;
const instance = await DuckDBInstance.create(":memory:");
const connection = await instance.connect();
const other = await instance.connect();
await connection.run(`create table players as select i as id from range(${ROWS}) numbers(i)`);
const countWith = async (lookUp) => {
  let count = 0;
  const result = await connection.stream("select id from players");
  for await (const rows of result.yieldRows()) {
    count += rows.length;
    await lookUp.runAndReadAll("select 1");
  }
  return count;
};
const [onTheSame, onAnother] = [await countWith(connection), await countWith(other)];
console.log(`guess: ${ROWS} rows, or an error`);
console.log(`seen:  ${onTheSame} rows and no error; ${onAnother} rows with the look-ups on another connection`);
process.exit(onTheSame === 2048 && onAnother === ROWS ? 0 : 1);
JS
node look.mjs
