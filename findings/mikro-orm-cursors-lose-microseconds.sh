#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): findByCursor keeps times in milliseconds, as a Date does,
# while a timestamptz that the database has set has microseconds. Rows of one millisecond then come again with each page
# (ascending, the first page comes for ever), or are left out (descending). Times that were set by JavaScript hide it.
# A cursor by a number, or a column of timestamptz(3), gives each row once.
# Guess: every row comes once, as the id is part of the order.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @mikro-orm/core@7.2.1 @mikro-orm/pglite@7.2.1 @electric-sql/pglite@0.5.8
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { EntitySchema } from "@mikro-orm/core";
import { MikroORM } from "@mikro-orm/pglite";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@mikro-orm/pglite ${versionOf("@mikro-orm/pglite")}, Node ${process.version}`);
const Entry = new EntitySchema({
  name: "Entry",
  properties: { id: { type: "number", primary: true }, at: { type: "datetime", columnType: "timestamptz" } },
});
const orm = await MikroORM.init({ entities: [Entry], dbName: "memory://" });
await orm.schema.create();
await orm.em.getConnection().execute(`insert into entry (id, at)
  select n, timestamptz '2026-01-01 00:00:00Z' + n * interval '350 microseconds' from generate_series(1, 7) n`);
const pagesBy = async (direction) => {
  const pages = [];
  for (let after; pages.length < 5; ) {
    const orderBy = { at: direction, id: direction };
    const page = await orm.em.fork().findByCursor(Entry, { first: 2, after, orderBy });
    pages.push(page.items.map(({ id }) => id).join(","));
    if (!page.hasNextPage) break;
    after = page.endCursor;
  }
  return pages.join(" | ");
};
const [up, down] = [await pagesBy("asc"), await pagesBy("desc")];
await orm.close();
console.log("guess: 1,2 | 3,4 | 5,6 | 7 and 7,6 | 5,4 | 3,2 | 1");
console.log(`seen:  ${up} (stopped after five) and ${down}`);
process.exit(up.startsWith("1,2 | 1,2 | 1,2") && down !== "7,6 | 5,4 | 3,2 | 1" ? 0 : 1);
JS
node look.mjs
