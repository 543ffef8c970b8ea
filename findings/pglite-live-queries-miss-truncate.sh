#!/usr/bin/env bash
# @electric-sql/pglite 0.5.8: a live query hears of rows that are inserted, updated and deleted, and not of a table that
# is truncated: whoever looks at it keeps rows that are gone until something else changes there.
# Guess: the query is told that there are no rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @electric-sql/pglite@0.5.8
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { PGlite } from "@electric-sql/pglite";
import { live } from "@electric-sql/pglite/live";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@electric-sql/pglite ${versionOf("@electric-sql/pglite")}, Node ${process.version}`);
const db = await PGlite.create({ extensions: { live } });
await db.exec("create table players (id int); insert into players values (1), (2)");
let shown;
const query = await db.live.query("select id from players", [], ({ rows }) => (shown = rows.length));
shown = query.initialResults.rows.length;
const after = async (statement) => {
  await db.exec(statement);
  await delay(1000);
  return shown;
};
const truncated = await after("truncate players");
const inserted = await after("insert into players values (3)");
const deleted = await after("delete from players");
await query.unsubscribe();
await db.close();
console.log("guess: 0 rows after truncate, 1 after an insert, 0 after a delete");
console.log(`seen:  ${truncated} rows after truncate, ${inserted} after an insert, ${deleted} after a delete`);
process.exit(truncated === 2 && inserted === 1 && deleted === 0 ? 0 : 1);
JS
node look.mjs
