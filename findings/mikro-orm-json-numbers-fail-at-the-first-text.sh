#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): a filter of a JSON property by a number casts that place
# to a number in every row. One row that has a text there makes the whole query fail, for everybody, whichever row was
# wanted. A filter by text, the other way round, also finds numbers and booleans that look like it.
# Guess: rows with a text there do not match, and types are told apart.
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
const Item = new EntitySchema({
  name: "Item",
  properties: { id: { type: "number", primary: true }, meta: { type: "json" } },
});
const orm = await MikroORM.init({ entities: [Item], dbName: "memory://" });
await orm.schema.create();
const add = async (id, size) => {
  const em = orm.em.fork();
  em.create(Item, { id, meta: { size } });
  await em.flush();
};
const find = async (size) => {
  const found = await orm.em.fork().find(Item, { meta: { size } }, { orderBy: { id: "asc" } });
  return JSON.stringify(found.map(({ id }) => id));
};
await add(1, 40);
await add(2, "40");
const [byText, byNumber] = [await find("40"), await find(40)];
await add(3, "large");
const failure = await find(40).catch((error) => error.message.split("\n")[0]);
await orm.close();
console.log('guess: [2] by "40", [1] by 40, before and after a row with the size "large"');
console.log(`seen:  ${byText} by "40", ${byNumber} by 40; then: ${failure}`);
process.exit(byText === "[1,2]" && /invalid input syntax/.test(failure) ? 0 : 1);
JS
node look.mjs
