#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): em.insert() and em.insertMany() do not call `onCreate` of a
# property, while em.upsert() of a new row does, as create() with flush() does. A nullable column, such as one of when a
# row was made, stays null without a word.
# Guess: all of them set it.
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
const Row = new EntitySchema({
  name: "Row",
  properties: {
    id: { type: "number", primary: true },
    madeBy: { type: "string", nullable: true, onCreate: () => "us" },
  },
});
const orm = await MikroORM.init({ entities: [Row], dbName: "memory://" });
await orm.schema.create();
const em = orm.em.fork();
em.create("Row", { id: 1 });
await em.flush();
await em.upsert("Row", { id: 2 });
await em.insert("Row", { id: 3 });
await em.insertMany("Row", [{ id: 4 }]);
const rows = await orm.em.fork().find("Row", {}, { orderBy: { id: "asc" } });
await orm.close();
console.log("guess: create us, upsert us, insert us, insertMany us");
console.log(`seen:  create ${rows[0].madeBy}, upsert ${rows[1].madeBy}, insert ${rows[2].madeBy}, insertMany ${rows[3].madeBy}`);
process.exit(rows.map(({ madeBy }) => String(madeBy)).join() === "us,us,null,null" ? 0 : 1);
JS
node look.mjs
