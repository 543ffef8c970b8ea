// Load with real clients of the Colyseus SDK and REST. See README.md.
import { writeFile } from "node:fs/promises";
import { Command } from "commander";
import { createSite, type Site } from "../bench/support/setup.ts";
import type { Scenario } from "./scenario.ts";
import { chat } from "./scenarios/chat.ts";
import { herd } from "./scenarios/herd.ts";
import { leaderboard } from "./scenarios/leaderboard.ts";
import { lobby } from "./scenarios/lobby.ts";
import { startOwnCluster, startOwnServer } from "./support/own-server.ts";
import { startProgress, summaryText } from "./support/report.ts";
import { type Summary, Tally } from "./support/tally.ts";

const SCENARIOS: readonly Scenario[] = [lobby, chat, leaderboard, herd];
const CLIENTS_MAX = 18_000;

type Options = {
  url?: string;
  key?: string;
  clients?: string;
  seconds?: string;
  rate?: string;
  json?: string;
  cluster?: boolean;
};

const numberOf = (name: string, text: string | undefined, otherwise: number): number => {
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new Error(`--${name} takes a number`);
  return value;
};

const runScenario = async (scenario: Scenario, site: Site, options: Options): Promise<Summary> => {
  const { defaults } = scenario;
  const clients = Math.min(CLIENTS_MAX, Math.max(1, numberOf("clients", options.clients, defaults.clients)));
  const seconds = numberOf("seconds", options.seconds, defaults.seconds);
  const rate = numberOf("rate", options.rate, defaults.rate);
  const tally = new Tally();
  const progress = startProgress(tally, process.stderr);
  try {
    await scenario.run({ site, tally, clients, seconds, rate, say: progress.say, count: progress.count });
  } finally {
    progress.stop();
  }
  return tally.summary({ scenario: scenario.name, clients, seconds });
};

const openSite = async ({ url, key, cluster }: Options): Promise<{ site: Site; stop(): Promise<void> }> => {
  if (url !== undefined) {
    const site = key === undefined ? await createSite(url) : { url, key, projectId: "" };
    return { site, stop: async () => undefined };
  }
  const server = await (cluster === true ? startOwnCluster() : startOwnServer());
  return { site: await createSite(server.url), stop: server.stop };
};

const run = async (name: string, options: Options): Promise<void> => {
  const chosen = SCENARIOS.filter((scenario) => name === "all" || scenario.name === name);
  if (chosen.length === 0) {
    throw new Error(
      `there is no scenario ${name}; there are all, ${SCENARIOS.map((s) => s.name).join(", ")}`,
    );
  }
  const { site, stop } = await openSite(options);
  const summaries: Summary[] = [];
  try {
    for (const scenario of chosen) {
      const summary = await runScenario(scenario, site, options);
      summaries.push(summary);
      process.stdout.write(summaryText(summary));
    }
  } finally {
    await stop();
  }
  if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(summaries, null, 2)}\n`);
  if (!summaries.every(({ isOk }) => isOk)) process.exitCode = 1;
};

await new Command("loadtest")
  .description("Load with real clients. Without --url against an embedded server of its own.")
  .argument("<scenario>", `all, ${SCENARIOS.map(({ name, about }) => `${name} (${about})`).join("; ")}`)
  .option("--cluster", "a server of its own in cluster mode (DATABASE_URL, REDIS_URL) instead of embedded")
  .option("--url <url>", "address of a server")
  .option("--key <key>", "API key with every scope; default: a tenant is registered")
  .option("--clients <n>", "players")
  .option("--seconds <s>", "how long")
  .option("--rate <n>", "messages or scores a second, over all players")
  .option("--json <file>", "where the summaries go")
  .action(run)
  .parseAsync();
process.exit();
