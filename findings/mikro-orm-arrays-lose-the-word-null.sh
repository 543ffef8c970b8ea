#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): an array property is written as PostgreSQL's array text
# with quotes around too few items. The text "null" becomes NULL, in any case, and blanks around an item are gone; the
# same happens to the values of a filter such as $contains, which then finds nothing. Nothing is thrown. Tags, names of
# people called Null and ids that a form has left a blank in do not come back as they were saved.
# Guess: every text comes back as it was saved.
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
const Player = new EntitySchema({
  name: "Player",
  properties: { id: { type: "number", primary: true }, tags: { type: "array" } },
});
const orm = await MikroORM.init({ entities: [Player], dbName: "memory://" });
await orm.schema.create();
const given = ["null", "NULL", " beta", "a, b"];
const em = orm.em.fork();
em.create(Player, { id: 1, tags: given });
await em.flush();
const { tags } = await orm.em.fork().findOneOrFail(Player, 1);
const found = await orm.em.fork().count(Player, { tags: { $contains: ["null"] } });
await orm.close();
console.log(`guess: ${JSON.stringify(given)}, and found by one of them`);
console.log(`seen:  ${JSON.stringify(tags)}; ${found} found by "null"`);
process.exit(JSON.stringify(tags) === '[null,null,"beta","a, b"]' && found === 0 ? 0 : 1);
JS
node look.mjs
