import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { sql } from "kysely";
import { z } from "zod";
import { route } from "../../src/http/route.ts";
import { createHttp } from "../../src/http/server.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { clientOf } from "../support/http/client.ts";
import { boardDefinition, ruleDocument, unique } from "../support/operations/bodies.ts";
import {
  assertAccountsOnly,
  assertHidden,
  assertNoBackDoors,
  assertPartitionsShut,
  assertUnmovable,
  assertWalled,
} from "../support/domain/row-security.ts";
import { madeOnce } from "../support/made.ts";

/** What a developer who forgets the filter might write. */
const forgetful = route({
  method: "get",
  path: "/forgetful",
  id: "forgetful",
  tag: "Test",
  summary: "All players",
  access: { scope: "players:read", roles: ["OWNER"] },
  project: "caller",
  response: z.object({ ids: z.array(z.string()) }),
  run: async ({ db }) => {
    const { rows } = await sql<{ project_id: string }>`select project_id from players`.execute(db);
    return { ids: [...new Set(rows.map((row) => row.project_id))] };
  },
});

describe("row-level security", () => {
  const api = madeOnce(startApp);
  let own: Tenant;
  let other: Tenant;

  const fill = async ({ key, token }: Tenant): Promise<void> => {
    const externalUserId = unique("user");
    const webhook = { url: "http://127.0.0.1:9/hooks", events: ["player.*"] };
    await api.post("/api/v1/webhooks", webhook, { token });
    await api.post("/api/v1/webhook-events/test", { eventType: "player.level_up" }, { key });
    await api.post("/api/v1/rules", ruleDocument(), { key });
    const board = await api.post("/api/v1/leaderboards", boardDefinition(), { key });
    const player = await api.post("/api/v1/players", { externalUserId }, { key });
    await api.post(`/api/v1/players/${player.body.id}/xp`, { amount: 5 }, { key });
    const score = { playerId: player.body.id, score: 5 };
    await api.post(`/api/v1/leaderboards/${board.body.id}/scores`, score, { key });
    await api.post("/api/v1/events?wait=true", { externalUserId, eventType: "seen" }, { key });
  };

  before(async () => {
    [own, other] = [await aTenant(api), await aTenant(api)];
    for (const tenant of [own, other]) await fill(tenant);
  });

  it("is on for every table", () => assertWalled(api.app.transact));

  it("hides what belongs to another from statements that forget to filter, in every table", async () => {
    const seen = await assertHidden(api.app, own, other);
    assert.ok(seen >= 20, `only ${seen} tables had rows of the other`);
  });

  it("lets look-ups of accounts see no players", () => assertAccountsOnly(api.app.transactAs));

  it("lets no row be given to another", async () => {
    const tried = await assertUnmovable(api.app.transact, api.app.transactAs, own);
    assert.ok(tried >= 12, `only ${tried} tables had rows`);
  });

  it("has no way around it by a partition, those to come included", () =>
    assertPartitionsShut(api.app.transact, api.app.transactAs));

  it("has no way around it by functions, views, policies or roles", () =>
    assertNoBackDoors(api.app.transact));

  it("stands behind a route whose statement forgot to filter", async () => {
    const server = createServer(createHttp(api.app, [forgetful])).listen(0, "127.0.0.1");
    await once(server, "listening");
    const client = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    try {
      const answer = await client.get("/api/v1/forgetful", { key: own.key });
      assert.deepEqual(answer.body, { ids: [own.projectId] });
      const user = await client.get("/api/v1/forgetful", { token: other.token });
      assert.deepEqual(user.body, { ids: [other.projectId] });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  it("ends with its transaction, whatever became of it", async () => {
    const asOwn = api.app.transactAs({ role: "web", tenantId: own.tenantId, projectIds: [own.projectId] });
    await assert.rejects(
      asOwn(() => Promise.reject(new Error("undone"))),
      /undone/,
    );
    const { rows } = await api.app.transact(({ db }) =>
      sql<{ role: string; n: string }>`
        select current_user as role, (select count(distinct project_id) from players) as n`.execute(db),
    );
    assert.ok(!rows[0]!.role.startsWith("laurel_"));
    assert.ok(Number(rows[0]!.n) >= 2);
  });
});
