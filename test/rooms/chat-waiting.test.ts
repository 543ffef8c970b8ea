import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sendMessages } from "../../src/domain/social/chat/messages.ts";
import { tickAll } from "../../src/rooms/pace.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { aPlayer, join, type Listener } from "../support/rooms/sdk.ts";

const FREE = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };
/** Nobody answers there. */
const NOWHERE = "http://127.0.0.1:9/";

describe("a message that a room commits", () => {
  let api: TestApp;
  before(async () => {
    api = await startApp();
  });

  const inChannel = async (tenant: Tenant) => {
    const body = { kind: "PROJECT", key: `c-${randomUUID()}`, name: "Test", settings: FREE };
    const channelId: string = must(
      await api.post("/api/v1/chat/channels", body, { key: tenant.key }),
      201,
    ).id;
    const player = await aPlayer(api, tenant.key);
    return { channelId, player, me: await join(api, player.token, "chat", { channelId }) };
  };
  const say = (me: Listener, content: string) => me.room.request("chat.send", { content });
  /** Rows about chat, whether they are relayed or not. */
  const written = async ({ projectId }: Tenant): Promise<number> => {
    const rows = await api.sql<{ n: number }>`select count(*)::int as n from outbox
      where project_id = ${projectId} and type like 'chat.%'`;
    return rows[0]!.n;
  };
  const heard = (listener: Listener) => listener.named("chat.message").map(({ data }) => data.content);
  for (const events of [["chat.message_sent"], ["chat.*"]])
    it(`is relayed from the commit on in which a webhook subscribes to ${events[0]}`, async () => {
      const tenant = await aTenant(api);
      const { me } = await inChannel(tenant);
      await say(me, "before");
      assert.equal(await written(tenant), 0);
      const webhook = must(
        await api.post("/api/v1/webhooks", { url: NOWHERE, events }, { token: tenant.token }),
        201,
      );
      await say(me, "after");
      assert.equal(await written(tenant), 1);
      const planned = async (): Promise<number> => {
        const rows = await api.sql<{ n: number }>`select count(*)::int as n from webhook_deliveries
          where webhook_id = ${webhook.id}`;
        return rows[0]!.n;
      };
      await eventually(async () => (await planned()) === 1);
    });

  it("is relayed while the feed is read", async () => {
    const tenant = await aTenant(api);
    await api.sql`insert into webhook_feeds (project_id, tenant_id, read_at)
      values (${tenant.projectId}, ${tenant.tenantId}, now())`;
    const { me } = await inChannel(tenant);
    await say(me, "for the feed");
    assert.equal(await written(tenant), 1);
  });

  it("is found by other rooms when its room died before it could tell of it", async () => {
    const tenant = await aTenant(api);
    const { channelId, player, me } = await inChannel(tenant);
    const ref = { projectId: tenant.projectId, channelId };
    const actor = { kind: "PLAYER", playerId: player.playerId } as const;
    await api.app.transact((work) => sendMessages(work, ref, [{ actor, send: { content: "lost" } }], true));
    tickAll();
    await eventually(() => heard(me).length === 1);
    assert.deepEqual(heard(me), ["lost"]);
  });
});
