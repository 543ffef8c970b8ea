#!/usr/bin/env bash
# @electric-sql/pglite 0.5.8: a parser that is given for a type also decodes the elements of arrays of that type.
# With pg 8.23.0 it does not (pg-types 2.2.0 binds the parsers of arrays when it is loaded), so code that runs on
# both and sets a parser for int8 or timestamptz has the same scalars and other arrays.
# Guess: as with pg, `parsers: { 20: … }` changes int8 and leaves int8[] as it was.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @electric-sql/pglite@0.5.8 pg-types@2.2.0
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";
import types from "pg-types";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`PGlite ${versionOf("@electric-sql/pglite")}, pg-types ${versionOf("pg-types")}, Node ${process.version}`);
const [INT8, INT8_ARRAY] = [20, 1016];
const decode = (text) => `int8 ${text}`;
const db = await PGlite.create({ parsers: { [INT8]: decode } });
const { rows } = await db.query("select 7::int8 as one, array[7]::int8[] as many");
await db.close();
types.setTypeParser(INT8, decode);
const ofPg = { one: types.getTypeParser(INT8)("7"), many: types.getTypeParser(INT8_ARRAY)("{7}") };
console.log(`pg:     ${JSON.stringify(ofPg)}`);
console.log('guess:  {"one":"int8 7","many":[7]}');
console.log(`PGlite: ${JSON.stringify(rows[0])}`);
const isSeen = JSON.stringify([rows[0].many, ofPg.many]) === JSON.stringify([["int8 7"], ["7"]]);
process.exit(isSeen ? 0 : 1);
JS
node look.mjs
