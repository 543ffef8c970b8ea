// Load with real clients of the Colyseus SDK and REST. See README.md.
import { writeFile } from "node:fs/promises";
import { Argument, Command, InvalidArgumentError } from "commander";
import { createSite, onStages, type Site } from "../bench/support/stage.ts";
import { type Scenario, SCENARIOS } from "./scenarios.ts";
import { type Summary, summaryText, Tally } from "./tally.ts";

const CLIENTS_MAX = 18_000;
const PROGRESS_EVERY_MS = 1_000;

type Numbers = { clients?: number; seconds?: number; rate?: number };
type Place = { url?: string; key?: string; cluster?: true };
type Options = Numbers & Place & { json?: string };

const number = (text: string): number => {
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new InvalidArgumentError("It takes a number.");
  return value;
};

const runScenario = async ({ name, defaults, run }: Scenario, site: Site, numbers: Numbers) => {
  const { clients: wanted, seconds, rate } = { ...defaults, ...numbers };
  const clients = Math.min(CLIENTS_MAX, Math.max(1, wanted));
  const tally = new Tally();
  const startMs = performance.now();
  let phase = "";
  const show = (): void =>
    console.error(`${Math.round((performance.now() - startMs) / 1_000)} s  ${phase}  ${tally.progress}`);
  const timer = setInterval(show, PROGRESS_EVERY_MS);
  await run({ site, tally, clients, seconds, rate, say: (now) => (phase = now) });
  clearInterval(timer);
  return tally.summary({ scenario: name, clients, seconds });
};

/** Runs on the server of the options, or on one that ends with the run. */
const onSite = async ({ url, key, cluster }: Place, run: (site: Site) => Promise<void>) => {
  if (url !== undefined) return run(key === undefined ? await createSite(url) : { url, key, projectId: "" });
  const mode = cluster ? "cluster" : "embedded";
  await onStages({ mode, hasWorker: cluster ?? false }, ([own]) => run(own!.site));
};

const main = async (name: string, { json, ...options }: Options): Promise<void> => {
  const chosen = SCENARIOS.filter((scenario) => name === "all" || scenario.name === name);
  const summaries: Summary[] = [];
  await onSite(options, async (site) => {
    for (const scenario of chosen) {
      const summary = await runScenario(scenario, site, options);
      summaries.push(summary);
      process.stdout.write(summaryText(summary));
    }
  });
  if (json !== undefined) await writeFile(json, `${JSON.stringify(summaries, null, 2)}\n`);
  if (!summaries.every(({ isOk }) => isOk)) process.exitCode = 1;
};

await new Command("loadtest")
  .description("Load with real clients. Without --url against an embedded server of its own.")
  .addArgument(
    new Argument("<scenario>", SCENARIOS.map(({ name, about }) => `${name}: ${about}`).join("; ")).choices([
      "all",
      ...SCENARIOS.map(({ name }) => name),
    ]),
  )
  .option("--cluster", "a server of its own in cluster mode (DATABASE_URL, REDIS_URL) instead of embedded")
  .option("--url <url>", "address of a server")
  .option("--key <key>", "API key with every scope; default: a tenant is registered")
  .option("--clients <n>", "players", number)
  .option("--seconds <s>", "how long", number)
  .option("--rate <n>", "messages or scores a second, over all players", number)
  .option("--json <file>", "where the summaries go")
  .action(main)
  .parseAsync();
process.exit();
