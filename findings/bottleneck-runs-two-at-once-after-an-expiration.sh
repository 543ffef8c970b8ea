#!/usr/bin/env bash
# bottleneck 2.19.5: a job whose expiration has passed fails, and gives its place to the next at once, though what it
# has started goes on. With maxConcurrent 1 two then run at the same time, such as two writes to a service that takes
# one.
# Guess: the next begins when the first has ended, as it says that one runs at a time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact bottleneck@2.19.5
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import Bottleneck from "bottleneck";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`bottleneck ${versionOf("bottleneck")}, Node ${process.version}`);
const one = new Bottleneck({ maxConcurrent: 1 });
let [running, most] = [0, 0];
const work = async () => {
  most = Math.max(most, ++running);
  await delay(600);
  running--;
};
const first = one.schedule({ expiration: 100 }, work).then(
  () => "done",
  () => "expired",
);
await Promise.all([first, one.schedule(work)]);
console.log("guess: at most 1 at a time");
console.log(`seen:  the first ${await first}, at most ${most} at a time`);
process.exit(most === 2 ? 0 : 1);
JS
node look.mjs
