import assert from "node:assert/strict";
import { type RawBuilder, sql } from "kysely";
import { PLAYER_STATE_MAX_BYTES } from "../../../src/domain/kernel/limits.ts";
import { Metric, metricId } from "../../../src/domain/evaluation/metrics/compile.ts";
import { must } from "../http/client.ts";
import { eventually } from "../eventually.ts";
import { damageRule, makeDue } from "../domain/domain.ts";
import type { LobbyView } from "../../../src/domain/kernel/events/chat-views.ts";
import type { TestApp } from "../app/app.ts";
import type { Game } from "../app/game.ts";

/** Where events of every type are brought about: a project of its own, whose events go to a webhook. */
export type Stage = {
  api: TestApp;
  game: Game;
  /** Changes what only time changes. */
  change(statement: RawBuilder<unknown>): Promise<void>;
  /** Waits until so many events of the type were sent to the webhook. */
  heard(type: string, count?: number): Promise<void>;
};

/** What brings events of some types about, as callers and time do. */
export type Scenario = { tells: readonly string[]; play(stage: Stage): Promise<void> };

/** Defines a rule that hears events of the type of its own key, and has it run. */
export const ruleOn = async (
  { game }: Stage,
  key: string,
  rule: { actions: object[]; conditions?: object; limits?: object },
): Promise<void> => {
  const triggers = [{ kind: "EVENT", eventTypes: [key] }];
  await game.make("/rules", { key, name: `On ${key}`, triggers, ...rule });
  const published = await game.post(`/rules/${key}/publish`);
  if (published.status !== 200) throw new Error(JSON.stringify(published.body));
};

const loop: Scenario = {
  tells: ["rule.loop_detected"],
  play: async (stage) => {
    await stage.game.make("/rules", {
      key: "echo",
      name: "Echo",
      triggers: [{ kind: "EVENT", eventTypes: ["said", "echoed"] }],
      // Publishing refuses a loop that nothing ends.
      limits: { perPlayer: [{ max: 1_000, window: "DAY" }] },
      actions: [{ type: "emit_event", eventType: "echoed", channels: ["rules"] }],
    });
    must(await stage.game.post("/rules/echo/publish"), 200);
    await stage.game.track("ada", "said");
  },
};

const steps: Scenario = {
  tells: ["event.steps_exhausted"],
  play: async (stage) => {
    const dear = (n: number) => ({
      type: "event_property",
      path: "text",
      op: "glob",
      value: `*${"a".repeat(180)}${n}`,
    });
    const conditions = { all: [{ none: Array.from({ length: 50 }, (_, n) => dear(n)) }] };
    await ruleOn(stage, "dear", { conditions, actions: [{ type: "grant_xp", amount: 1 }] });
    await stage.game.track("ada", "dear", { text: `${"a".repeat(1_000)}b` });
  },
};

const budget: Scenario = {
  tells: ["rule.budget_exhausted"],
  play: async (stage) => {
    const limits = { budgets: [{ asset: "currency:coins", max: 10, window: "DAY" }] };
    const actions = [{ type: "adjust_currency", currencyKey: "coins", amount: 6 }];
    await ruleOn(stage, "shared", { actions, limits });
    for (const _ of [1, 2]) await stage.game.track("ada", "shared");
  },
};

const reverted: Scenario = {
  tells: ["event.reverted"],
  play: async (stage) => {
    const { game } = stage;
    const actions = [
      { type: "grant_xp", amount: 30 },
      { type: "adjust_currency", currencyKey: "coins", amount: 5 },
    ];
    await ruleOn(stage, "bought", { actions });
    const { body } = await game.post("/events?wait=true", { externalUserId: "ada", eventType: "bought" });
    assert.equal(body.status, "PROCESSED");
    must(await game.post(`/events/${body.eventId}/revert`, { reason: "The order was cancelled" }), 200);
  },
};

/** A rule whose counter finds no room, since an older one takes all of it. */
const uncounted: Scenario = {
  tells: ["event.uncounted"],
  play: async (stage) => {
    const actions = [{ type: "grant_xp", amount: 1 }];
    const metrics = ["filling", "full"].map((type) =>
      Metric.parse({ eventTypes: [type], aggregate: "count" }),
    );
    const all = metrics.map((metric) => ({ type: "event_aggregate", metric, op: "gte", value: 1 }));
    await ruleOn(stage, "full", { actions, conditions: { all } });
    const { projectId } = stage.game.tenant;
    const bytes = PLAYER_STATE_MAX_BYTES - 30;
    await stage.change(sql`
      insert into player_states (project_id, player_id, doc, bytes)
      select project_id, id, jsonb_build_object('c', jsonb_build_object(${metricId(metrics[0]!)}::text,
        repeat('x', ${bytes}::int))), ${bytes}::int
      from players where project_id = ${projectId} and external_user_id = 'ada'
      on conflict (project_id, player_id) do update set doc = excluded.doc, bytes = excluded.bytes`);
    await stage.game.track("ada", "full");
    // The other scenarios count again.
    await stage.change(sql`update player_states set doc = '{}', bytes = 2 where project_id = ${projectId}`);
  },
};

/** A rule that throws. */
const failing: Scenario = {
  tells: ["event.failed"],
  play: async (stage) => {
    const { api, game } = stage;
    const { projectId } = game.tenant;
    await ruleOn(stage, "imported", { actions: [{ type: "grant_xp", amount: 10 }] });
    await damageRule(api.app, projectId, "imported");
    const { body } = await game.post("/events", { externalUserId: "ada", eventType: "imported" });
    await eventually(
      async () => {
        await makeDue(api.app, projectId);
        return (await game.get(`/events/${body.eventId}`)).body.status === "FAILED";
      },
      { timeoutMs: 60_000, label: "the event is given up" },
    );
  },
};

/** Scenarios about rules and tracked events. */
export const EVENT_SCENARIOS: readonly Scenario[] = [loop, steps, budget, reverted, uncounted, failing];

/** Leo opens a lobby, Mia and Nils join, Nils leaves; Mia becomes host, and both play a game. */
const match: Scenario = {
  tells: [
    "lobby.created",
    "lobby.member_joined",
    "lobby.member_left",
    "lobby.host_changed",
    "lobby.started",
    "lobby.game_finished",
    "lobby.ended",
  ],
  play: async ({ game }) => {
    const players = [];
    for (const name of ["Leo", "Mia", "Nils"])
      players.push(await game.make("/players", { externalUserId: name.toLowerCase(), displayName: name }));
    const [leo, mia, nils] = players.map(({ id }) => id as string);
    const teams = { count: 2, size: 1, assignment: "BALANCED", balanceBy: "skill" };
    const lobby: LobbyView = await game.make("/lobbies", {
      name: "Friday duel",
      mode: "duel",
      maxPlayers: 2,
      hostPlayerId: leo,
      metadata: { map: "harbour" },
      settings: { countdownSeconds: 0, teams },
    });
    const act = async (what: string, body: object): Promise<LobbyView> =>
      must(await game.post(`/lobbies/${lobby.id}/${what}`, body), 200);
    await act("join", { playerId: nils });
    await act("leave", { playerId: nils });
    await act("join", { playerId: mia });
    await act("host", { playerId: mia, actingPlayerId: leo });
    for (const playerId of [leo, mia]) await act("ready", { playerId, ready: true });
    const { matchId } = await act("start", { playerId: mia });
    const results = [
      { playerId: leo, outcome: "WIN", score: 70, stats: { hits: 3 } },
      { playerId: mia, outcome: "LOSS", score: 7, stats: { hits: 1 } },
    ];
    await act("end", { matchId, results });
  },
};

const channel: Scenario = {
  tells: ["chat.message_sent", "chat.message_reported", "chat.message_moderated", "chat.player_sanctioned"],
  play: async ({ game }) => {
    for (const name of ["Olga", "Pete"])
      await game.make("/players", { externalUserId: name.toLowerCase(), displayName: name });
    await game.make("/chat/channels", { key: "trade", name: "Trade", settings: { slowModeSeconds: 0 } });
    const path = "/chat/channels/trade/messages";
    await game.make(path, { playerId: "ext:olga", content: "A hat for 15 coins, who wants it?" });
    const reply = { playerId: "ext:pete", content: "@olga You cheat", replyTo: 1, clientMsgId: "m-1" };
    const { seq } = await game.make(path, reply);
    await game.make(`${path}/${seq}/reports`, { playerId: "ext:olga", reason: "HARASSMENT" });
    must(await game.remove(`${path}/${seq}`), 200);
    await game.make("/chat/sanctions", {
      playerId: "ext:pete",
      kind: "MUTE",
      reason: "Insults",
      durationSeconds: 3_600,
    });
  },
};

/** Scenarios about lobbies and chat. */
export const ROOM_SCENARIOS: readonly Scenario[] = [match, channel];

/** A report runs, and another one does not: its experiment has ended. */
const reports: Scenario = {
  tells: ["report.ready", "report.failed"],
  play: async ({ game, change, heard }) => {
    const made = async (body: object): Promise<string> =>
      must(await game.post("/analytics/reports", { ...body }), 201).id as string;
    const weekly = await made({
      name: "Players of the week",
      report: "overview",
      range: { last: 1, unit: "WEEK" },
    });
    must(await game.post(`/analytics/reports/${weekly}/runs`), 201);
    await heard("report.ready");
    await game.make("/rules", {
      key: "split",
      name: "Split",
      triggers: [{ kind: "EVENT", eventTypes: ["split"] }],
      rollout: { percent: 100, holdoutPercent: 50 },
      actions: [{ type: "grant_xp", amount: 1 }],
    });
    must(await game.post("/rules/split/publish"), 200);
    const helps = await made({
      name: "Does it help",
      report: "experiments",
      parameters: { ruleId: "split", metric: "events", period: "7d" },
    });
    await change(sql`
      update rules set published_version = null
      where project_id = ${game.tenant.projectId}::uuid and key = 'split'`);
    must(await game.post(`/analytics/reports/${helps}/runs`), 201);
    await heard("report.failed");
  },
};

/** Scenarios about saved reports. */
export const REPORT_SCENARIOS: readonly Scenario[] = [reports];
