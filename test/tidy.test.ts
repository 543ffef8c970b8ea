import assert from "node:assert/strict";
import {
  circlesOf,
  districtViolations,
  importGraph,
  impureEvaluation,
  lineAt,
  readSourceFiles,
  type SourceFile,
  withoutComments,
} from "./support/source/source-files.ts";
import { importViolations } from "./support/source/import-rules.ts";
import { readMigrations } from "./support/source/migration-keys.ts";

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
  describe("imports", () => {
    it("go only where the layers allow", () => none(importViolations(src)));

    it("form no circle of files, type imports included", () => {
      const circles = circlesOf(importGraph(src, { types: true }));
      none(circles.map((circle) => `${circle.join(", ")} import one another`));
    });

    it("go only to districts of the domain that stand above, type imports included", () =>
      none(districtViolations(importGraph(src, { types: true }))));

    it("keep databases and transactions out of evaluation", () => none(impureEvaluation(src)));
  });

  describe("code", () => {
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
  });
});
