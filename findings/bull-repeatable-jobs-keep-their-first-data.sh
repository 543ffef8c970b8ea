#!/usr/bin/env bash
# bull 4.16.5: a repeatable job that is added again with the same repeat options and other data keeps the data of the
# first time, in all its runs to come. add() resolves as if it had been taken, with a job that has the new data. A
# deployment that changes what a schedule carries changes nothing, until the old one is removed or its interval changes.
# Guess: runs after the second add() have the new data.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact bull@4.16.5
cat >look.mjs <<'JS'
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import Queue from "bull";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`bull ${versionOf("bull")}, Node ${process.version}`);
const { hostname: host, port } = new URL(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const queue = new Queue(`look-${randomUUID()}`, { redis: { host, port: Number(port || 6379) } });
const seen = [];
await queue.add({ text: "old" }, { repeat: { every: 400 } });
const again = await queue.add({ text: "new" }, { repeat: { every: 400 } });
queue.process(({ data }) => void seen.push(data.text));
await delay(3_000);
const schedules = (await queue.getRepeatableJobs()).length;
await queue.obliterate({ force: true });
await queue.close();
const [olds, news] = ["old", "new"].map((text) => seen.filter((one) => one === text).length);
console.log("guess: runs with the new data");
console.log(`seen:  ${schedules} schedule, ${olds > 2 ? "several" : olds} runs with the old data, ${news} with the new`);
process.exit(schedules === 1 && olds > 2 && news === 0 ? 0 : 1);
JS
node look.mjs
