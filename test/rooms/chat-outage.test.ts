import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { rejection } from "../support/lobbies/room.ts";
import { aPlayer, join, range } from "../support/rooms/sdk.ts";

describe("a chat message that an outage of the database refuses", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const execute = (statement: string): Promise<unknown> =>
    api.app.transact(({ db }) => sql.raw(statement).execute(db));

  /** Runs `run` while PostgreSQL stores no message of this project because its disk is full. */
  const whileRefused = async (run: () => Promise<void>): Promise<void> => {
    await execute(`create function refuse_message() returns trigger language plpgsql as
      $$ begin raise exception 'refused' using errcode = '53100'; end $$`);
    await execute(`create trigger refused before insert on chat_messages for each row
      when (new.project_id = '${tenant.projectId}') execute function refuse_message()`);
    try {
      await run();
    } finally {
      await execute("drop trigger refused on chat_messages");
      await execute("drop function refuse_message");
    }
  };

  const aChannel = async (): Promise<string> => {
    const settings = { slowModeSeconds: 60, burstMessages: 2, minuteMessages: 2 };
    const body = { kind: "PROJECT", key: `c-${randomUUID()}`, name: "Test", settings };
    return must(await api.post("/api/v1/chat/channels", body, { key: tenant.key }), 201).id;
  };

  it("in a room is told so and counts for nothing: the same clientMsgId goes through later", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const { room } = await join(api, token, "chat", { channelId: await aChannel() });
    const message = { content: "hello", clientMsgId: randomUUID() };
    await whileRefused(async () => {
      for (const _ of range(1, 4)) {
        const { code, reason } = await rejection(room.request("chat.send", message));
        assert.deepEqual([code, reason], ["SERVICE_UNAVAILABLE", "DATABASE_UNAVAILABLE"]);
      }
    });
    const sent = await room.request("chat.send", message);
    assert.equal(sent.seq, 1);
    const more = room.request("chat.send", { content: "more", clientMsgId: randomUUID() });
    assert.equal((await rejection(more)).reason, "SLOW_MODE");
    await room.leave();
  });

  for (const isKeyed of [false, true])
    it(`by REST counts for nothing ${isKeyed ? "with" : "without"} an idempotency key`, async () => {
      const { playerId } = await aPlayer(api, tenant.key);
      const path = `/api/v1/chat/channels/${await aChannel()}/messages`;
      const body = { content: "hello", clientMsgId: randomUUID(), playerId };
      const headers = isKeyed ? { "X-Idempotency-Key": randomUUID() } : {};
      const send = () => api.post(path, body, { key: tenant.key, headers });
      await whileRefused(async () => {
        for (const _ of range(1, 4)) {
          const { status, headers: answered } = await send();
          assert.equal(status, 503);
          assert.ok(Number(answered.get("retry-after")) >= 1);
        }
      });
      assert.equal((await send()).status, 201);
      const more = { ...body, clientMsgId: randomUUID() };
      assert.equal((await api.post(path, more, { key: tenant.key })).status, 429);
    });
});
