#!/usr/bin/env bash
# @electric-sql/pglite 0.5.8: exec() runs several statements and returns a result for each, but `affectedRows` of each
# result counts the rows of all statements before it, too. A script that deletes three rows after inserting three says
# that it has deleted six.
# Guess: each result counts its own statement, as the result of query() does.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @electric-sql/pglite@0.5.8
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@electric-sql/pglite ${versionOf("@electric-sql/pglite")}, Node ${process.version}`);
const db = await PGlite.create();
await db.exec("create table players (id int)");
const results = await db.exec(`
  insert into players values (1); insert into players values (2), (3); delete from players`);
const counts = results.map(({ affectedRows }) => affectedRows).join(", ");
await db.close();
console.log("guess: 1, 2, 3");
console.log(`seen:  ${counts}`);
process.exit(counts === "1, 3, 6" ? 0 : 1);
JS
node look.mjs
