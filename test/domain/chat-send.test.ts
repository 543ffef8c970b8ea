import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { deleteMessage, editMessage } from "../../src/domain/social/chat/message-view.ts";
import { readLastSeqs, sendMessages } from "../../src/domain/social/chat/messages.ts";
import type { ChatMessage } from "../../src/domain/kernel/events/social-views.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { aTalk, messageOf, raceSends, type Talk, upTo } from "../support/chat/talk.ts";
import { makeCrashing } from "../support/domain/crashing.ts";
import { memoryDomain } from "../support/domain/domain.ts";
import { pluck } from "../support/pluck.ts";

describe("sends to a channel", () => {
  const { database, domain } = memoryDomain();

  it("are one message for each clientMsgId, numbered 1 to n, for all readers the same", async () => {
    const talk = await aTalk(domain, 4);
    await raceSends(talk);
    const last = await domain.transact((work) => readLastSeqs(work, [talk.ref]));
    assert.equal(last.get(talk.ref.channelId), 200);
  });

  it("are retried once word lists are compiled, once however often these change", async () => {
    const talk = await aTalk(domain, 1);
    const sendings = [{ actor: talk.players[0]!, send: { content: "a turnip and a leek" } }];
    const setWord = ({ db }: Pick<Work, "db">, word: string) =>
      sql`
        insert into chat_word_lists (project_id, key, action, match, words, version, created_at, updated_at)
        values (${talk.projectId}, 'greens', 'MASK', 'WORD', ${JSON.stringify([word])}::json, ${newId()},
          now(), now())
        on conflict (project_id, key) do update
        set words = excluded.words, version = excluded.version`.execute(db);
    /** Sends in a transaction that may begin with a change, and counts its attempts. */
    const send = async (change: (work: Work, attempt: number) => Promise<unknown>) => {
      let attempts = 0;
      const { sent } = await domain.transact(async (work) => {
        attempts += 1;
        await change(work, attempts);
        return sendMessages(work, talk.ref, sendings);
      });
      return [attempts, messageOf(sent[0]).content];
    };
    await domain.transact((work) => setWord(work, "turnip"));
    assert.deepEqual(await send(async () => undefined), [2, "a ****** and a leek"]);
    assert.deepEqual(await send(async () => undefined), [1, "a ****** and a leek"]);
    const changing = (work: Work, attempt: number) => setWord(work, attempt === 2 ? "leek" : "and");
    assert.deepEqual(await send(changing), [2, "a turnip and a ****"]);
  });

  it("are all there or none of them, wherever the process dies", async () => {
    const talk = await aTalk(domain, 2);
    const { crashAt } = await makeCrashing(database);
    await talk.say(talk.players[0]!, "first");
    const sendings = upTo(5).map((i) => ({
      actor: talk.players[i % 2]!,
      send: { content: `text ${i} @p1`, clientMsgId: `c${i}` },
    }));
    let crashes = 0;
    for (let at = 1; ; at++) {
      if (!(await crashAt(at, at % 2 === 0, () => talk.send(...sendings)))) break;
      crashes++;
      const [row] = await rows(talk);
      assert.deepEqual([row!.last_seq, row!.messages, row!.told], [1, 1, 1], `died at ${at}`);
    }
    assert.ok(crashes >= 6);
    await talk.send(...sendings);
    const [row] = await rows(talk);
    assert.deepEqual([row!.last_seq, row!.messages, row!.told], [6, 6, 6]);
  });

  const rows = ({ ref }: Talk) => domain.sql<{ last_seq: number; messages: number; told: number }>`
    select last_seq::int as last_seq,
      (select count(*)::int from chat_messages m where m.channel_id = c.id) as messages,
      (select count(*)::int from outbox o where o.project_id = c.project_id
        and o.type = 'chat.message_sent') as told
    from chat_channels c where id = ${ref.channelId}`;

  type Step = { kind: "SEND" | "EDIT" | "DELETE"; player: number; text: string; id: number; at: number };
  const step = fc.record<Step>({
    kind: fc.constantFrom("SEND", "SEND", "EDIT", "DELETE"),
    player: fc.nat(2),
    text: fc.constantFrom(
      "one",
      "two",
      "three",
      "  ",
      "x".repeat(501),
      "see https://bad.example.org",
      "Ünïcode 🎉",
    ),
    id: fc.nat(6),
    at: fc.integer({ min: 1, max: 8 }),
  });

  it("only ever add to what is there, as a list that is appended to would", async () => {
    const talk = await aTalk(domain, 3);
    let length = 0;
    const run = async (steps: readonly Step[]): Promise<void> => {
      const model = new Map((await talk.read(talk.players[0]!)).map((one) => [one.seq, one]));
      for (const { kind, player, text, id, at } of steps) {
        const actor = talk.players[player]!;
        const seq = length + at;
        const refused = await outcome(async () => {
          if (kind === "SEND") {
            const sent = await append(talk, model, { actor, text, id: `${length}-${id}` });
            return void model.set(sent.seq, sent);
          }
          const done = await domain.transact((work) =>
            kind === "EDIT"
              ? editMessage(work, talk.ref, actor, { seq, content: text })
              : deleteMessage(work, talk.ref, actor, { seq }),
          );
          model.set(seq, done.reply);
        });
        if (refused) assert.ok([400, 403, 404, 409].includes(refused.status), refused.message);
      }
      const bare = (messages: readonly ChatMessage[]) =>
        messages.flatMap(({ seq, content, deletedAt }) => [[seq, content, deletedAt] as const]);
      const read = await talk.read(talk.players[1]!);
      assert.deepEqual(bare(read), bare([...model.values()]));
      assert.deepEqual(pluck(read, "seq"), upTo(read.length));
      length = read.length;
    };
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 20 }), run), {
      numRuns: 15,
    });
    assert.ok(length > 20);
  });

  const outcome = async (run: () => Promise<void>): Promise<DomainError | undefined> => {
    try {
      await run();
      return undefined;
    } catch (error) {
      if (error instanceof DomainError) return error;
      throw error;
    }
  };

  type Append = { actor: Talk["players"][number]; text: string; id: string };
  /** A duplicate is the message of before, whatever it says now. */
  const append = async (talk: Talk, model: ReadonlyMap<number, ChatMessage>, { actor, text, id }: Append) => {
    const sent = await talk.say(actor, text, { clientMsgId: id });
    const known = model.get(sent.seq);
    if (known) assert.equal(sent.id, known.id);
    else assert.equal(sent.content, text.trim());
    return sent;
  };
});
