import assert from "node:assert/strict";
import { sql } from "kysely";
import { commitBy } from "../../src/domain/kernel/read.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { type Sending, sendMessages, type Sent } from "../../src/domain/social/chat/messages.ts";
import type { ChatLine } from "../../src/domain/kernel/events/chat-views.ts";
import { type KnownSends, knownSends } from "../support/chat/known.ts";
import { aTalk, messageOf, type Talk } from "../support/chat/talk.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

describe("sends that are decided by what a room remembers", () => {
  const { domain } = memoryDomain();

  const open = async (players = 3): Promise<{ talk: Talk; room: KnownSends }> => {
    const talk = await aTalk(domain, players);
    return { talk, room: knownSends(domain, talk, commitBy(domain.transact)) };
  };
  const rows = async ({ projectId }: Talk): Promise<Record<string, unknown>[]> => {
    const found = await domain.transact(({ db }) =>
      sql<Record<string, unknown>>`
        select m.seq::int as seq, p.external_user_id as by, type, content, original, reply_to::int as re,
          client_msg_id as k, moderation, flags, is_shadowed as h, c.last_seq::int as last
        from chat_messages m join chat_channels c on c.project_id = m.project_id and c.id = m.channel_id
        left join players p on p.project_id = m.project_id and p.id = m.sender_id
        where m.project_id = ${projectId} order by m.seq`.execute(db),
    );
    return found.rows;
  };
  const outboxOf = async ({ projectId }: Talk): Promise<string[]> => {
    const { rows: found } = await domain.transact(({ db }) =>
      sql<{ type: string }>`select type from outbox where project_id = ${projectId} and type like 'chat.%'
        order by id`.execute(db),
    );
    return found.map(({ type }) => type);
  };
  const mute = ({ projectId, players }: Talk, n: number): Promise<unknown> =>
    domain.transact(({ db }) =>
      sql`insert into chat_sanctions (project_id, id, player_id, kind, reason, created_by, created_at)
        values (${projectId}, ${newId()}, ${players[n]!.playerId}, 'MUTE', 'test', 'test', now())`.execute(
        db,
      ),
    );
  const set = (talk: Talk, settings: object): Promise<unknown> =>
    domain.transact(({ db }) =>
      sql`update chat_channels set settings = settings || ${JSON.stringify(settings)}::jsonb
        where project_id = ${talk.projectId}`.execute(db),
    );

  /** What both ways must agree in. */
  const told = ({ sent, lines }: { sent: Sent[]; lines: ChatLine[] }, talk: Talk) => {
    const names = new Map(talk.players.map(({ playerId }, n) => [playerId, `p${n}`]));
    const text = JSON.stringify([
      sent.map((one) => ("error" in one ? [one.error.code, one.error.message, one.error.details] : one)),
      lines,
    ]);
    return text
      .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, (id) => names.get(id) ?? "id")
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "time");
  };

  it("come out as others do, whatever is sent, and most of them in one message", async () => {
    const { talk, room } = await open();
    const twin = await aTalk(domain, 3);
    const groups: ((of: Talk) => Sending[])[] = [
      (of) => [by(of, 0, "hello")],
      (of) => [by(of, 0, "one"), by(of, 1, "two", { clientMsgId: "a" }), by(of, 2, "three")],
      (of) => [by(of, 1, "two", { clientMsgId: "a" })],
      (of) => [by(of, 1, "b", { clientMsgId: "b" }), by(of, 1, "b", { clientMsgId: "b" })],
      (of) => [by(of, 2, "an answer", { replyTo: 2 })],
      (of) => [by(of, 2, "an answer too", { replyTo: 2 }), by(of, 0, "to nothing", { replyTo: 99 })],
      (of) => [by(of, 0, "@p1 look"), by(of, 1, "plain")],
      (of) => [by(of, 0, ""), by(of, 1, "after an empty one"), by(of, 2, "x".repeat(5_000))],
      (of) => [by(of, 0, "what the fuck"), by(of, 1, "https://example.com")],
      (of) => [by(of, 0, "@everyone"), by(of, 2, "last")],
      (of) => [by(of, 0, "0"), by(of, 1, "1"), by(of, 2, "2")],
    ];
    for (const group of groups) {
      const expected = await domain.transact((work) => sendMessages(work, twin.ref, group(twin), true));
      assert.equal(told(await room.send(...group(talk)), talk), told(expected, twin));
    }
    assert.deepEqual(await rows(talk), await rows(twin));
    assert.deepEqual(await outboxOf(talk), await outboxOf(twin));
    assert.ok(room.counts.known >= 4, `${room.counts.known} were one message`);
  });

  it("write nothing once a sender is muted, and are refused then", async () => {
    const { talk, room } = await open();
    await room.send(by(talk, 0, "a"), by(talk, 1, "b"));
    assert.ok(await room.guess(by(talk, 0, "c")));
    await mute(talk, 0);
    assert.equal(await room.guess(by(talk, 1, "of another"), by(talk, 0, "d")), undefined);
    assert.equal((await rows(talk)).length, 3);
    const { sent } = await room.send(by(talk, 0, "e"), by(talk, 1, "f"));
    assert.ok("error" in sent[0]! && sent[0].error.reason === "PLAYER_MUTED");
    assert.equal(messageOf(sent[1]).seq, 4);
    assert.equal(room.counts.known, 1);
  });

  it("write nothing once anything has changed that decides, and go on afterwards", async () => {
    const { talk, room } = await open(1);
    const changes: Record<string, () => Promise<unknown>> = {
      settings: () => set(talk, { maxLength: 20 }),
      "a name": () => onPlayer(talk, sql`display_name = 'Ada'`),
      "a level": () => onPlayer(talk, sql`level = 7`),
      status: () =>
        domain.transact(({ db }) =>
          sql`update chat_channels set status = 'ARCHIVED' where project_id = ${talk.projectId}`.execute(db),
        ),
    };
    await room.send(by(talk, 0, "first"));
    for (const [what, change] of Object.entries(changes)) {
      assert.ok(await room.guess(by(talk, 0, "as known")), what);
      await change();
      const before = (await rows(talk)).length;
      assert.equal(await room.guess(by(talk, 0, "not as known")), undefined, what);
      assert.equal((await rows(talk)).length, before, what);
    }
    const { sent } = await room.send(by(talk, 0, "in an archive"));
    assert.ok("error" in sent[0]!);
  });

  const onPlayer = (talk: Talk, change: ReturnType<typeof sql>): Promise<unknown> =>
    domain.transact(({ db }) =>
      sql`update players set ${change} where project_id = ${talk.projectId}`.execute(db),
    );

  it("are numbered on from what other rooms have sent meanwhile", async () => {
    const { talk, room } = await open();
    await room.send(by(talk, 0, "a"));
    for (let n = 0; n < 5; n++) await talk.say(talk.players[1]!, `b${n}`);
    const guessed = await room.guess(by(talk, 0, "c"), by(talk, 0, "d"));
    assert.deepEqual(
      guessed!.sent.map((one) => messageOf(one).seq),
      [7, 8],
    );
    assert.deepEqual(
      (await rows(talk)).map(({ seq, last }) => [seq, last]),
      [1, 2, 3, 4, 5, 6, 7, 8].map((seq) => [seq, 8]),
    );
  });
});

const by = (talk: Talk, n: number, content: string, more: Partial<Sending["send"]> = {}): Sending => ({
  actor: talk.players[n]!,
  send: { content, ...more },
});
