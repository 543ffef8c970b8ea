import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { GROUP_MAX, GroupSender, WAITING_MAX } from "../../src/rooms/chat-commands.ts";
import { range } from "../support/rooms/sdk.ts";

describe("sends of one room that are committed in groups", () => {
  type Commit = { group: readonly number[]; atMs: number };

  const aSender = (): { sender: GroupSender<number, number>; commits: Commit[] } => {
    const commits: Commit[] = [];
    const sender = new GroupSender<number, number>(async (group) => {
      commits.push({ group, atMs: performance.now() });
      await turn();
      if (group.includes(-1)) throw new Error("refused");
      return group.map((n) => 2 * n);
    });
    return { sender, commits };
  };

  it("are prepared while they wait for another group, and committed as prepared", async () => {
    const groups: (readonly string[])[] = [];
    const sender = new GroupSender<string, string>(
      async (group) => {
        groups.push(group);
        await turn();
        return group;
      },
      (item) => `${item}, prepared`,
    );
    const sends = ["a", "b", "c"].map((item) => sender.send(item));
    assert.deepEqual(await Promise.all(sends), ["a", "b, prepared", "c, prepared"]);
    assert.equal(groups.length, 1);
  });

  it("do not wait when a group is full, and are refused when too many wait", async () => {
    const { sender, commits } = aSender();
    const sends = range(1, WAITING_MAX).map((n) => sender.send(n));
    assert.throws(() => sender.send(0), { code: "SERVICE_UNAVAILABLE", retryAfterSeconds: 1 });
    await Promise.all(sends);
    assert.deepEqual(
      commits.map(({ group }) => group.length),
      range(1, WAITING_MAX / GROUP_MAX).map(() => GROUP_MAX),
    );
  });

  it("share what their commit throws, and the next ones do not", async () => {
    const { sender } = aSender();
    const bad = [-1, 1].map((n) => sender.send(n));
    for (const { status } of await Promise.allSettled(bad)) assert.equal(status, "rejected");
    assert.equal(await sender.send(2), 4);
  });
});
