import assert from "node:assert/strict";
import type { Role } from "../../src/domain/kernel/caller.ts";
import { aKey, type Answer, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { auditOf } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { aLobbyGame } from "../support/lobbies/room.ts";
import { aMember } from "../support/app/member.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const SECRET = "meet me at the old mill";
const READS = "chat.private_read";

type Credentials = { key?: string; token?: string };

describe("private channels", () => {
  let ada: string;
  let direct: string;
  let lobby: string;
  const api = madeOnce(startApp);
  const game = madeForEach(() => aLobbyGame(api));
  beforeEach(async () => {
    ada = await game.player("ada");
    const bob = await game.player("bob");
    direct = (await game.make("/chat/direct", { playerIds: [ada, bob] })).id;
    const opened = await game.open({ hostPlayerId: ada });
    const channels = must(await game.get(`/chat/channels?kind=LOBBY&playerId=${ada}`), 200).data;
    lobby = channels.find(({ lobbyId }: { lobbyId: string }) => lobbyId === opened.id).id;
    for (const id of [direct, lobby]) await say(id);
  });

  const say = async (channelId: string): Promise<void> =>
    must(await game.post(`/chat/channels/${channelId}/messages`, { content: SECRET, playerId: ada }), 201);
  const get = (path: string, credentials: Credentials): Promise<Answer> =>
    api.get(`/api/v1/chat${path}`, credentials);
  const tokenOf = async (role: Role): Promise<Credentials> => ({
    token: (await aMember(api, game.tenant.tenantId, role)).token,
  });
  const keyOf = async (...scopes: string[]) => ({ key: await aKey(api, { ...game.tenant, scopes }) });
  const idsIn = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id);

  it("are not there for who may not moderate: neither listed, nor counted, nor read", async () => {
    const outsiders: Credentials[] = [await keyOf("chat:read"), await keyOf("chat:read", "chat:write")];
    for (const role of ["VIEWER", "DEVELOPER", "DESIGNER"] as const) outsiders.push(await tokenOf(role));
    for (const credentials of outsiders) {
      const list = await get("/channels", credentials);
      assert.deepEqual(must(list, 200).pagination.total, 1);
      assert.equal(list.body.data[0].key, "global");
      assert.deepEqual(idsIn(await get("/channels?kind=DIRECT", credentials)), []);
      for (const id of [direct, lobby]) {
        for (const what of ["", "/messages", "/messages?page=1", "/members"]) {
          const answer = await get(`/channels/${id}${what}`, credentials);
          assertError(answer, 404);
          assert.equal(JSON.stringify(answer.body).includes(SECRET), false);
        }
      }
      must(await get("/channels/global/messages", credentials), 200);
    }
    for (const id of [direct, lobby])
      assert.deepEqual(
        (await auditOf(api, id)).filter(({ action }) => action === READS),
        [],
      );
  });

  it("are read by who may moderate, and each reading of them is in the audit log", async () => {
    const readers: Credentials[] = [
      await keyOf("chat:read", "chat:moderate"),
      await tokenOf("ADMIN"),
      await tokenOf("OWNER"),
    ];
    for (const credentials of readers) {
      const list = await get("/channels", credentials);
      assert.equal(must(list, 200).pagination.total, 3);
      assert.equal(JSON.stringify(list.body).includes(SECRET), false, "a list is no way around the log");
      for (const [id, kind] of [
        [direct, "DIRECT"],
        [lobby, "LOBBY"],
      ] as const) {
        const before = await auditOf(api, id);
        const { data } = must(await get(`/channels/${id}/messages`, credentials), 200);
        assert.equal(data[0].content, SECRET);
        must(await get(`/channels/${id}/members`, credentials), 200);
        const now = (await auditOf(api, id)).slice(before.length);
        assert.deepEqual(
          now.map(({ action, data: { what, kind: of } }) => [action, what, of]),
          [
            [READS, "messages", kind],
            [READS, "members", kind],
          ],
        );
        assert.equal(now[0]!.tenant, game.tenant.tenantId);
        assert.equal(now[0]!.data.toSeq, data[0].seq);
        assert.match(now[0]!.actor, credentials.key === undefined ? /^user:/ : /^key:/);
      }
    }
    must(await get("/channels/global/messages", readers[0]!), 200);
  });

  it("are in the audit log too when a report of them is read", async () => {
    const own = must(await game.get(`/chat/channels/${direct}/messages?playerId=${ada}`), 200);
    const { seq } = own.data[0];
    const body = { playerId: "ext:bob", reason: "HARASSMENT" };
    const { id } = must(await game.post(`/chat/channels/${direct}/messages/${seq}/reports`, body), 201);
    const admin = await tokenOf("ADMIN");
    assert.equal(must(await get(`/reports/${id}`, admin), 200).message.content, SECRET);
    const read = (await auditOf(api, direct)).filter(({ action }) => action === READS);
    assert.deepEqual(
      read.map(({ data }) => [data.what, data.reportId, data.seq]),
      [["report", id, seq]],
    );
  });

  it("are read by their members without a line in the log, and spoken in by servers", async () => {
    const key = await keyOf("chat:read", "chat:write");
    for (const id of [direct, lobby]) {
      const { data } = must(await get(`/channels/${id}/messages?playerId=${ada}`, key), 200);
      assert.equal(data[0].content, SECRET);
      must(await game.post(`/chat/channels/${id}/messages`, { content: "Welcome" }, key.key), 201);
      assertError(await get(`/channels/${id}/messages?playerId=${await game.someone()}`, key), 404);
      assert.deepEqual(
        (await auditOf(api, id)).filter(({ action }) => action === READS),
        [],
      );
    }
    const list = must(await get(`/channels?playerId=${ada}`, key), 200).data;
    const shown = list.find(({ id }: { id: string }) => id === direct);
    assert.equal(shown.lastMessage.content, "Welcome");
  });

  it("are told to no webhook and no feed, public ones are", async () => {
    must(await game.post("/chat/channels/global/messages", { content: "Hello", playerId: ada }), 201);
    const rows = await api.sql<{ content: string }>`
      select data->>'content' as content from outbox
      where project_id = ${game.tenant.projectId} and type = 'chat.message_sent'`;
    assert.deepEqual(rows, [{ content: "Hello" }]);
  });
});
