import assert from "node:assert/strict";

import { aTalk, type PlayerActor, raceSends, upTo } from "../support/chat/talk.ts";
import { startDatabase } from "../support/processes/services.ts";
import type { Domain } from "../support/domain/domain.ts";

const TALKS = 30;
const CALLERS = 10;

describe("sends to one channel over several connections", () => {
  let domain: Domain;
  let remove: () => Promise<void>;

  before(async () => {
    ({ domain, remove } = await startDatabase(10));
  });
  after(() => remove());

  it("are one message for each clientMsgId in one order, while the mentioned are busy", async () => {
    const talk = await aTalk(domain, 4);
    // Who mentions locks players and channel, who grants the players alone: neither may wait in a ring.
    const busy = upTo(20).map((i) => domain.grant(talk.projectId, talk.players[i % 4]!.playerId, 1));
    await Promise.all([raceSends(talk), ...busy]);
  });

  it("are numbered one after another also while the channel is made", async () => {
    const talks = await Promise.all(upTo(TALKS).map(() => aTalk(domain, 1)));
    for (const { players, send, read } of talks) {
      const [actor] = players as [PlayerActor];
      await Promise.all(upTo(CALLERS).map((n) => send({ actor, send: { content: `text ${n}` } })));
      const seqs = (await read(actor)).map(({ seq }) => seq);
      assert.deepEqual(seqs, upTo(CALLERS));
    }
  });
});
