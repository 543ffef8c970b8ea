import assert from "node:assert/strict";
import type { App } from "../../src/app.ts";
import type { ChannelSettings } from "../../src/domain/kernel/events/social-views.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { ChatSender, WAITING_MAX } from "../../src/rooms/chat-commands.ts";
import { range } from "../support/rooms/sdk.ts";

describe("sends of one room that wait for a commit", () => {
  it("are refused when there are too many, and no more once the others have ended", async () => {
    const gate = Promise.withResolvers<void>();
    let commits = 0;
    const transact = async (): Promise<never> => {
      commits++;
      await gate.promise;
      throw new Error("lost");
    };
    const app = { transactAs: () => transact, commitAs: () => transact, clock: () => new Date() };
    const sender = new ChatSender({
      app: () => app as unknown as App,
      ref: () => ({ projectId: newId(), channelId: newId() }),
      tenantId: () => undefined,
      settings: () => ({}) as ChannelSettings,
      onCommitted: () => assert.fail("nothing is committed"),
      onError: (error) => assert.fail(String(error)),
    });
    const send = async (): Promise<unknown> =>
      sender.send({ kind: "SERVER", isModerator: false }, { content: "x" }).catch((error: unknown) => error);
    const sends = range(1, WAITING_MAX).map(send);
    const { code, retryAfterSeconds } = (await send()) as { code: string; retryAfterSeconds: number };
    assert.deepEqual([code, retryAfterSeconds], ["SERVICE_UNAVAILABLE", 1]);
    gate.resolve();
    for (const error of await Promise.all([...sends, send()])) assert.match(String(error), /lost|too many/);
    assert.equal(commits, WAITING_MAX / 200);
    assert.match(String(await send()), /lost/);
  });
});
