#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): Infinity and NaN of a double property are put into the
# statement without quotes, so PostgreSQL looks for a column of that name and the flush fails, although the type of the
# column holds both.
# Guess: both are stored and come back.
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
const Score = new EntitySchema({
  name: "Score",
  properties: { id: { type: "number", primary: true }, best: { type: "double" } },
});
const orm = await MikroORM.init({ entities: [Score], dbName: "memory://" });
await orm.schema.create();
const store = async (id, best) => {
  const em = orm.em.fork();
  em.create(Score, { id, best });
  await em.flush();
  return String((await orm.em.fork().findOneOrFail(Score, id)).best);
};
const shown = (error) => error.message.split("\n").find((line) => line.includes("column")) ?? error.message;
const seen = [await store(1, Infinity).catch(shown), await store(2, Number.NaN).catch(shown)];
await orm.close();
console.log("guess: Infinity and NaN");
console.log(`seen:  ${seen.join(" and ")}`);
process.exit(seen.every((text) => /column "?(infinity|nan)"? does not exist/i.test(text)) ? 0 : 1);
JS
node look.mjs
