#!/usr/bin/env bash
# @electric-sql/pglite 0.5.8: where a statement in db.transaction() fails and the callback catches the error and
# returns, PostgreSQL answers COMMIT by a rollback. The promise of transaction() resolves all the same, with what the
# callback has returned, and nothing of the transaction is stored.
# Guess: transaction() rejects, as it does when the callback throws.
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
await db.exec("create table coins (player text primary key, n int)");
const outcome = await db
  .transaction(async (tx) => {
    await tx.query("insert into coins values ('ada', 5)");
    await tx.query("insert into coins values ('ada', 6)").catch(() => undefined);
    return "5 coins given";
  })
  .catch(() => "rejected");
const { rows } = await db.query("select count(*)::int as n from coins");
await db.close();
console.log("guess: rejected, 0 rows");
console.log(`seen:  ${outcome}, ${rows[0].n} rows`);
process.exit(outcome === "5 coins given" && rows[0].n === 0 ? 0 : 1);
JS
node look.mjs
