import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Client } from "../http/client.ts";
import { eventually } from "../eventually.ts";
import { ruleDocument } from "../operations/bodies.ts";
import { type Arena, oneWins, type Race, type Run, sideIn, tally, together } from "./arena.ts";

const isQuiet = async ({ clients }: Arena, key: string): Promise<boolean> => {
  const { body } = await clients[0]!.get("/api/v1/events?status=PENDING&limit=1", { key });
  return body.data.length === 0;
};

const definitions: Race[] = [
  {
    name: "gives a leaderboard's key to one of those who want it",
    run: async (arena) => {
      const { tenant } = await sideIn(arena);
      const body = { key: "taken", name: "Board", metric: { source: "XP" } };
      const make: Run = (client) => client.post("/api/v1/leaderboards", body, { key: tenant.key });
      oneWins(await together(arena, 6, make), 201, "409 KEY_TAKEN");
    },
  },
  {
    name: "gives a rule's key to one of those who want it, new or renamed",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const body = { ...ruleDocument(), key: "taken" };
      const rules = await Promise.all([side.rule(), side.rule(), side.rule()]);
      const answers = await together(arena, 6, (client, i) =>
        i < 3
          ? client.post("/api/v1/rules", body, { key })
          : client.patch(`/api/v1/rules/${rules[i - 3]}`, { draftVersion: 1, key: "taken" }, { key }),
      );
      const won = answers.filter(({ status }) => status < 300);
      assert.equal(won.length, 1, JSON.stringify(tally(answers)));
      assert.deepEqual(tally(answers.filter((one) => one !== won[0])), { "409 KEY_TAKEN": 5 });
    },
  },
  {
    name: "takes one of the edits of a draft, and publishes whole drafts",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const rule = await side.rule("publish");
      const answers = await together(arena, 12, (client, i) =>
        i % 2 === 0
          ? client.patch(
              `/api/v1/rules/${rule}`,
              { draftVersion: 1, priority: i, name: `Edit ${i}` },
              { key },
            )
          : client.post(`/api/v1/rules/${rule}/publish`, {}, { key }),
      );
      oneWins(
        answers.filter((_, i) => i % 2 === 0),
        200,
        "409 VERSION_CONFLICT",
      );
      const versions = answers
        .filter((_, i) => i % 2 === 1)
        .map(({ body }) => body.publishedVersion as number);
      assert.deepEqual(versions.toSorted(), [2, 3, 4, 5, 6, 7]);
      const { body } = await arena.clients[0]!.get(`/api/v1/rules/${rule}`, { key });
      for (const { name, priority } of [body.draft, body.published])
        assert.equal(
          name === "A rule" ? 5 : Number(name.slice(5)),
          priority,
          "name and priority are of one edit",
        );
    },
  },
  {
    name: "takes a rule through one of its transitions at a time",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const rule = await side.rule("publish");
      const steps = ["pause", "pause", "resume", "resume", "publish", "pause", "resume", "publish"];
      const answers = await together(arena, steps.length, (client, i) =>
        client.post(`/api/v1/rules/${rule}/${steps[i]}`, {}, { key }),
      );
      const allowed = new Set(["200", "409 INVALID_STATE"]);
      assert.ok(
        Object.keys(tally(answers)).every((name) => allowed.has(name)),
        JSON.stringify(tally(answers)),
      );
      const ends = await together(arena, 4, (client) => client.delete(`/api/v1/rules/${rule}`, { key }));
      oneWins(ends, 200, "409 INVALID_STATE");
    },
  },
  {
    name: "numbers level curves one after another",
    run: async (arena) => {
      const { tenant } = await sideIn(arena);
      const answers = await together(arena, 6, (client, i) =>
        client.request("PUT", "/api/v1/level-curve", {
          key: tenant.key,
          body: { type: "LINEAR", params: { base: 100 + i, maxLevel: 5 }, recalculate: "SILENT" },
        }),
      );
      assert.deepEqual(answers.map(({ body }) => body.version as number).toSorted(), [1, 2, 3, 4, 5, 6]);
    },
  },
];

const accounts: Race[] = [
  {
    name: "registers an address once, whatever its case",
    run: async (arena) => {
      const name = randomUUID();
      const answers = await together(arena, 6, (client, i) => {
        const email = `${i % 2 === 0 ? name : name.toUpperCase()}@example.com`;
        const body = { email, password: "Correct-horse-7", name: "Test Owner" };
        const headers = { "X-Forwarded-For": `10.9.${i}.7` };
        return client.post("/api/v1/auth/register", body, { headers });
      });
      oneWins(answers, 201, "409 EMAIL_ALREADY_EXISTS");
    },
  },
  {
    name: "revokes a key once, and makes one sandbox for all test keys",
    run: async (arena) => {
      const { tenant, apiKey } = await sideIn(arena);
      const keys = `/api/v1/projects/${tenant.projectId}/api-keys`;
      const id = await apiKey();
      const revoked = await together(arena, 6, (client) =>
        client.delete(`${keys}/${id}`, { token: tenant.token }),
      );
      oneWins(revoked, 200, "409 INVALID_STATE");
      const made = await together(arena, 6, (client) =>
        client.post(keys, { name: "Test", environment: "test", scopes: ["*"] }, { token: tenant.token }),
      );
      assert.deepEqual(tally(made), { 201: 6 });
      const players = await Promise.all(
        made.map(({ body }, i) => {
          const client = arena.clients[i % arena.clients.length]!;
          return client.post("/api/v1/players", { externalUserId: "one" }, { key: body.key });
        }),
      );
      assert.equal(new Set(players.map(({ body }) => body.id)).size, 1);
    },
  },
];

const players: Race[] = [
  {
    name: "makes one player, whoever names it first: an identification, an event, a token, a score",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const externalUserId = `user-${randomUUID()}`;
      const answers = await together(arena, 12, (client, i) => {
        if (i % 3 === 0) return client.post("/api/v1/players", { externalUserId }, { key });
        if (i % 3 === 1) return client.post("/api/v1/auth/ws-token", { externalUserId }, { key });
        return client.post("/api/v1/events?wait=true", { externalUserId, eventType: "seen" }, { key });
      });
      assert.ok(
        answers.every(({ status }) => status < 300),
        JSON.stringify(tally(answers)),
      );
      const ids = answers.flatMap(({ body }) => body.playerId ?? (body.externalUserId ? body.id : []));
      assert.equal(new Set(ids).size, 1);
      assert.ok(answers.filter(({ status }) => status === 201).length <= 1);
      await eventually(() => isQuiet(arena, key));
    },
  },
  {
    name: "adds XP of grants and of rules up exactly while definitions change",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const [rule, player] = await Promise.all([side.rule(), side.player()]);
      const body = { draftVersion: 1, limits: null, conditions: { all: [] }, schedule: null };
      const actions = [{ type: "grant_xp", amount: 7 }];
      await arena.clients[0]!.patch(`/api/v1/rules/${rule}`, { ...body, actions }, { key });
      await arena.clients[0]!.post(`/api/v1/rules/${rule}/publish`, {}, { key });
      const { externalUserId } = (await arena.clients[0]!.get(`/api/v1/players/${player}`, { key })).body;
      const answers = await together(arena, 60, (client, i) => {
        if (i % 3 === 0) return client.post(`/api/v1/players/${player}/xp`, { amount: 5 }, { key });
        if (i % 3 === 1)
          return client.post("/api/v1/events", { externalUserId, eventType: "swept" }, { key });
        if (i % 2 === 0) return client.post("/api/v1/rules", ruleDocument(), { key });
        return client.post(`/api/v1/rules/${rule}/publish`, {}, { key });
      });
      assert.ok(
        answers.every(({ status }) => status < 300),
        JSON.stringify(tally(answers)),
      );
      await eventually(() => isQuiet(arena, key));
      const shown = await arena.clients[0]!.get(`/api/v1/players/${player}`, { key });
      assert.equal(shown.body.xp, 20 * 5 + 20 * 7);
    },
  },
  {
    name: "adds submitted scores up exactly, and keeps the best and the latest",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const [client] = arena.clients as [Client];
      const player = await side.player();
      for (const operator of ["SUM", "BEST", "LATEST"]) {
        const board = { key: operator.toLowerCase(), name: operator, metric: { source: "CUSTOM" }, operator };
        await client.post("/api/v1/leaderboards", board, { key });
      }
      const answers = await together(arena, 60, (one, i) => {
        const board = ["sum", "best", "latest"][i % 3];
        const occurredAt = new Date(Date.UTC(2026, 0, 1, 0, 0, i)).toISOString();
        return one.post(
          `/api/v1/leaderboards/${board}/scores`,
          { playerId: player, score: i, occurredAt },
          { key },
        );
      });
      assert.deepEqual(tally(answers), { 200: 60 });
      const scoreOf = async (board: string) =>
        (await client.get(`/api/v1/leaderboards/${board}/players/${player}`, { key })).body.score;
      const sum = Array.from({ length: 20 }, (_, n) => n * 3).reduce((a, b) => a + b, 0);
      assert.deepEqual([await scoreOf("sum"), await scoreOf("best"), await scoreOf("latest")], [sum, 58, 59]);
    },
  },
  {
    name: "stores an idempotency key once, sent alone or in batches",
    run: async (arena) => {
      const { tenant } = await sideIn(arena);
      const event = { externalUserId: "u", eventType: "seen", idempotencyKey: "once" };
      const answers = await together(arena, 12, (client, i) =>
        i % 2 === 0
          ? client.post("/api/v1/events", event, { key: tenant.key })
          : client.post("/api/v1/events/batch", { events: [event, event] }, { key: tenant.key }),
      );
      const results = answers.flatMap(({ body }) => body.results ?? [body]) as {
        status: string;
        eventId: string;
      }[];
      assert.equal(results.length, 18);
      assert.equal(results.filter(({ status }) => status === "PENDING").length, 1);
      assert.equal(new Set(results.map(({ eventId }) => eventId)).size, 1);
    },
  },
];

const deletions: Race[] = [
  {
    name: "processes what a project was sent before it was deleted, and hinders nobody else",
    isSlow: true,
    run: async (arena) => {
      const side = await sideIn(arena);
      const other = await sideIn(arena);
      const { key, token, projectId } = side.tenant;
      const events = Array.from({ length: 20 }, (_, i) => ({ externalUserId: `u${i}`, eventType: "seen" }));
      const answers = await together(arena, 20, (client, i) => {
        if (i === 10) return client.delete(`/api/v1/projects/${projectId}`, { token });
        return client.post("/api/v1/events/batch", { events }, { key });
      });
      const refused = answers.filter(({ status }) => status >= 400);
      assert.ok(
        refused.every(({ status }) => status === 401),
        JSON.stringify(tally(answers)),
      );
      const gone = () => arena.clients.map((client) => client.get("/api/v1/players", { key }));
      await eventually(async () => (await Promise.all(gone())).every(({ status }) => status === 401), {
        timeoutMs: 7_000,
      });
      for (const client of arena.clients) {
        const seen = { externalUserId: "u1", eventType: "seen" };
        const { body } = await client.post("/api/v1/events?wait=true", seen, { key: other.tenant.key });
        assert.equal(body.status, "PROCESSED");
      }
    },
  },
];
/** What must hold when several want the same thing at the same time. */
export const races: readonly Race[] = [...definitions, ...accounts, ...players, ...deletions];
