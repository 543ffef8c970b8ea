import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { districtViolations, impureEvaluation } from "./support/source/districts.ts";
import { circlesOf, importGraph } from "./support/source/import-graph.ts";
import { importViolations } from "./support/source/import-rules.ts";
import { readMigrations } from "./support/source/migration-keys.ts";
import {
  importsOf,
  lineAt,
  readSourceFiles,
  type SourceFile,
  withoutComments,
} from "./support/source/source-files.ts";

const ROOT = join(import.meta.dirname, "..");

/** What stands at the top of the repository; a folder ends with "/". */
const TOP_LEVEL = new Set([
  ".c8rc.json",
  ".ci/",
  ".env.example",
  ".gitignore",
  ".mocharc.json",
  ".npmrc",
  ".oxfmtrc.json",
  ".oxlintrc.json",
  "CHANGELOG.md",
  "LICENSE",
  "README.md",
  "bench/",
  "bin/",
  "docs/",
  "ecosystem.config.js",
  "knip.json",
  "loadtest/",
  "package-lock.json",
  "package.json",
  "scripts/",
  "src/",
  "test/",
  "tsconfig.json",
]);

const topOf = (path: string): string => path.replace(/\/.*$/s, "/");

/** The paths at the top that nobody has listed, such as a database that a program left in its directory. */
const straysIn = (paths: readonly string[]): string[] =>
  [...new Set(paths.map(topOf))].filter((name) => !TOP_LEVEL.has(name)).toSorted();

/** What is listed and not there. */
const missingIn = (paths: readonly string[]): string[] => {
  const there = new Set(paths.map(topOf));
  return [...TOP_LEVEL].filter((name) => !there.has(name));
};

/**
 * The files of the repository: those that git knows, and those that the next `git add` would take; undefined
 * where this is no clone.
 */
const repositoryFiles = (): string[] | undefined => {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const { status, stdout } = spawnSync("git", args, { cwd: ROOT, encoding: "utf8", maxBuffer: 2 ** 26 });
  return status === 0 && stdout !== "" ? stdout.split("\0").filter(Boolean) : undefined;
};

/** Tables that grow with players or events. */
const GROWING_TABLES = [
  "players",
  "player_states",
  "tracked_events",
  "event_dedupe",
  "event_q",
  "event_due",
  "event_results",
  "leaderboard_entries",
  "ledger_entries",
  "outbox",
  "outbox_q",
  "player_balances",
  "currency_lots",
  "currency_holds",
  "player_badges",
  "badge_awards",
  "player_streaks",
  "streak_runs",
  "player_segments",
  "segment_spells",
  "segment_sweeps",
  "segment_changes",
  "player_boosts",
  "reward_grants",
  "prize_codes",
  "inbox_messages",
  "player_identities",
  "player_merges",
  "shared_counters",
  "rule_executions",
  "rule_stats",
  "rule_schedules",
  "event_traces",
  "event_types",
  "project_jobs",
  "leaderboard_periods",
  "leaderboard_results",
  "leaderboard_notices",
  "leaderboard_feed",
  "score_reviews",
  "quest_submissions",
  "quest_codes",
  "lobbies",
  "lobby_members",
  "lobby_invites",
  "lobby_bans",
  "lobby_matches",
  "chat_channels",
  "chat_members",
  "chat_messages",
  "chat_reactions",
  "chat_sanctions",
  "chat_reports",
  "chat_word_lists",
  "webhook_feeds",
  "webhook_events",
];
/** Definitions and accounts: they stay small, so a plain key will do although they have a project. */
const SMALL_TABLES = new Set(["api_keys", "rules", "leaderboards", "definitions", "webhooks"]);
/**
 * What reads or changes rows of the outbox as they are stored, where one may hold several lines: it counts
 * lines by their number, takes rows whole, or asks for types of which each has a row of its own.
 */
const READS_STORED_LINES = new Set([
  "src/domain/analytics/ask.ts",
  "src/domain/analytics/events.ts",
  "src/domain/delivery/outbox/relay.ts",
  "src/domain/delivery/outbox/stream.ts",
  "src/domain/delivery/outbox/read-queue.ts",
  "src/domain/delivery/webhooks/delivering/claim.ts",
  "src/domain/kernel/outbox-lines.ts",
  "src/domain/player-lifecycle/erase-rows.ts",
  "src/domain/player-lifecycle/erase.ts",
  "src/domain/player-lifecycle/history.ts",
  "src/domain/player-lifecycle/history.ts",
  "src/domain/players/player.ts",
  "src/domain/registries/reconcile/player-checks.ts",
  "src/domain/revert/bulk/bulk-revert.ts",
  "src/domain/rules/insight/execution-list.ts",
  "src/domain/social/chat/mentions.ts",
  "src/domain/social/chat/personal.ts",
  "src/domain/social/chat/settings.ts",
]);
/** What belongs to a webhook is found, sent and shown by webhook; a webhook has one tenant. */
const LED_BY_WEBHOOK = new Set(["webhook_deliveries"]);

const all = readSourceFiles();
const code = all.filter(({ path }) => /\.(ts|mjs|js)$/.test(path));
const src = code.filter(({ path }) => path.startsWith("src/"));

const none = (violations: string[]): void => {
  if (violations.length > 0) assert.fail(`${violations.length} found:\n${violations.join("\n")}`);
};

/** `path:line rule` wherever the pattern occurs. */
const occurrences = (files: readonly SourceFile[], pattern: RegExp, rule: string): string[] =>
  files.flatMap(({ path, text }) =>
    [...text.matchAll(pattern)].map(
      (match) => `${path}:${lineAt(text, match.index)} ${rule}: ${match[0].trim()}`,
    ),
  );

const stripped = src.map(({ path, text }) => ({ path, text: withoutComments(text) }));

describe("tidiness", () => {
  describe("the top of the repository", () => {
    it("has what is listed for it and nothing else", function () {
      const files = repositoryFiles();
      if (!files) this.skip();
      none([
        ...straysIn(files).map((name) => `${name} is not listed in TOP_LEVEL: remove it`),
        ...missingIn(files).map((name) => `${name} is listed in TOP_LEVEL, and gone`),
      ]);
    });
  });

  describe("imports", () => {
    it("go only where the layers allow", () => none(importViolations(src)));

    it("form no circle of files, type imports included", () => {
      const circles = circlesOf(importGraph(src, { types: true }));
      none(circles.map((circle) => `${circle.join(", ")} import one another`));
    });

    it("go only to districts of the domain that stand above, type imports included", () =>
      none(districtViolations(importGraph(src, { types: true }))));

    it("keep databases and transactions out of evaluation", () => none(impureEvaluation(src)));

    it("are not passed on by an index.ts", () => {
      const indexes = src.filter(({ path }) => path.endsWith("/index.ts"));
      const reexports = indexes.flatMap(({ path, text }) =>
        importsOf(text)
          .map((one) => ({ ...one, path }))
          .filter(({ isReexport }) => isReexport),
      );
      none(reexports.map(({ path, line }) => `${path}:${line} an index.ts computes a list, it is no barrel`));
    });
  });

  describe("code", () => {
    it("reads lines from OUTBOX_LINES, unless it knows that a row may hold several", () => {
      const others = stripped.filter(
        ({ path }) => !READS_STORED_LINES.has(path) && !path.startsWith("src/domain/registries/migrations/"),
      );
      none(occurrences(others, /\b(from|join|update|using)\s+outbox\b/g, "read OUTBOX_LINES"));
    });

    it("reads the environment in src/config.ts only", () => {
      const others = stripped.filter(({ path }) => path !== "src/config.ts");
      none(
        occurrences(
          others,
          /\bprocess\.env\b|["']node:process["']/g,
          "only src/config.ts reads the environment",
        ),
      );
    });
  });

  describe("migrations", () => {
    const { tables, keys } = readMigrations(
      all.filter(({ path }) => path.startsWith("src/domain/registries/migrations/")),
    );
    const mustLead = (name: string): boolean =>
      GROWING_TABLES.includes(name) ||
      (!SMALL_TABLES.has(name) &&
        !LED_BY_WEBHOOK.has(name) &&
        tables.some((table) => table.name === name && table.hasProjectId));

    it("create every table that grows", () => {
      const names = new Set(tables.map(({ name }) => name));
      none(GROWING_TABLES.filter((name) => !names.has(name)).map((name) => `${name} is not created`));
    });

    it("put project_id first in each primary and unique key of a table that grows", () => {
      const wrong = keys.filter(({ table, columns }) => mustLead(table) && columns[0] !== "project_id");
      const keyed = new Set(keys.filter(({ isPrimary }) => isPrimary).map(({ table }) => table));
      none([
        ...wrong.map(
          ({ path, line, table, columns }) => `${path}:${line} ${table}: key (${columns.join(", ")})`,
        ),
        ...tables
          .filter(({ name }) => !keyed.has(name))
          .map(({ path, line, name }) => `${path}:${line} ${name} has no primary key that can be read here`),
      ]);
    });
  });

  describe("text", () => {
    const others = all.filter(({ path }) => path !== "test/tidy.test.ts");

    it("names no folder of one machine and no package registry", () => {
      none([
        ...occurrences(others, /(?<![\w.:$}-])\/(?:work|home|root|Users|tmp)\/[\w.-]+/g, "a machine path"),
        ...occurrences(others, /\bregistry\.[\w-]+\.\w+|"resolved": "http/g, "a registry"),
      ]);
    });

    it("speaks of the product, not of how it was made", () => {
      none([
        ...occurrences(others, /\b(?:issue|ticket|task|PR) ?#\d+|\b(?:fixes|closes|refs) #\d+/gi, "a ticket"),
        ...occurrences(others, /\b(?:coding|previous|earlier|prior) sessions?\b/gi, "a working session"),
        ...occurrences(others, /\bsub-?agents?\b|\b(?:other|another|my) helpers?\b/gi, "a helper"),
      ]);
    });
  });
});
