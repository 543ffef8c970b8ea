import assert from "node:assert/strict";
import { newId } from "../../src/domain/kernel/ids.ts";
import type { RowScope } from "../../src/domain/kernel/work.ts";
import { aTalk, type KnownSends, knownSends, messageOf, type Talk, upTo } from "../support/chat/talk.ts";
import { postgresDomain } from "../support/processes/services.ts";
import { pluck } from "../support/pluck.ts";

const GROUPS = 60;

describe("messages of rooms in one round trip", () => {
  const { database, domain } = postgresDomain(10);

  const roomOf = async (talk: Talk): Promise<KnownSends> => {
    const rows = await domain.sql<{ id: string }>`
      select tenant_id as id from projects where id = ${talk.projectId}`;
    const scope: RowScope = { role: "web", tenantId: rows[0]!.id, projectIds: [talk.projectId] };
    return knownSends(domain, talk, database.commitAs!(scope));
  };

  it("are each there once, in one order, from rooms of several processes and REST", async () => {
    const talk = await aTalk(domain, 4);
    const rooms = await Promise.all(upTo(3).map(() => roomOf(talk)));
    const inRooms = rooms.map(async (room, r) => {
      for (const n of upTo(GROUPS)) {
        const actor = talk.players[n % 4]!;
        const { sent } = await room.send({ actor, send: { content: `${r} ${n}` } });
        const twice = { content: `once ${n}`, clientMsgId: `once-${n}` };
        const again = await room.send({ actor, send: twice });
        for (const one of [...sent, ...again.sent]) messageOf(one);
      }
    });
    const byRest = upTo(GROUPS).map((n) => talk.say(talk.players[n % 4]!, `rest ${n}`));
    await Promise.all([...inRooms, ...byRest]);
    const read = await talk.read(talk.players[0]!);
    assert.deepEqual(pluck(read, "seq"), upTo(5 * GROUPS));
    assert.equal(new Set(read.map(({ content }) => content)).size, read.length);
    assert.ok(rooms.every(({ counts }) => counts.known > 0));
  });

  it("are refused once their sender is muted, whatever the room remembers", async () => {
    const talk = await aTalk(domain, 1);
    const room = await roomOf(talk);
    const [actor] = talk.players;
    const say = (n: number) => room.send({ actor: actor!, send: { content: `text ${n}` } });
    for (const round of upTo(10)) {
      for (const n of upTo(3)) messageOf((await say(n)).sent[0]);
      const racing = upTo(4).map((n) => say(n));
      await domain.sql`insert into chat_sanctions (project_id, id, player_id, kind, reason, created_by, created_at)
        values (${talk.projectId}, ${newId()}, ${actor!.playerId}, 'MUTE', 'test', 'test', now())`;
      const { sent } = await say(round);
      assert.ok("error" in sent[0]! && sent[0].error.reason === "PLAYER_MUTED", `round ${round}`);
      await Promise.all(racing);
      await domain.sql`update chat_sanctions set revoked_at = now() where project_id = ${talk.projectId}`;
    }
  });
});
