import assert from "node:assert/strict";
import { PAGE_BYTES_MAX } from "../../src/domain/kernel/paging.ts";
import { listExecutions } from "../../src/domain/rules/insight/execution-list.ts";
import { EFFECTS_BYTES_MAX, getEvent, listEvents, readStatuses } from "../../src/domain/tracking/events.ts";
import { memoryDomain, publish } from "../support/domain/domain.ts";

/** A list of 15 kB that takes twenty times as much memory. */
const NOTHINGS = Array.from({ length: 5_000 }, () => ({}));
const NOTHINGS_BYTES = JSON.stringify(NOTHINGS).length;
const ACTIONS = 20;
const EVENTS = 12;
/** Bytes of what is beside the list, and of spaces in it. */
const SLACK = 2;

describe("what an answer holds of events that tell much", () => {
  let projectId: string;
  let ruleId: string;
  let ids: string[];

  const { domain } = memoryDomain();
  before(async () => {
    projectId = await domain.addProject();
    const telling = {
      type: "emit_event",
      eventType: "told",
      channels: ["webhook"],
      properties: { list: { $ref: "event.properties.list" } },
    };
    const actions = Array.from({ length: ACTIONS }, () => telling);
    ruleId = await publish(domain, projectId, { key: "telling", actions });
    const events = Array.from({ length: EVENTS }, () => ({ user: "u", properties: { list: NOTHINGS } }));
    ids = await domain.track(projectId, events);
    await domain.process();
  });

  const lists = (value: object): number => JSON.stringify(value).split(`[${"{},".repeat(9)}`).length - 1;

  it("is bounded by bytes where it shows effects, and tells how many it has left out", async () => {
    const statuses = await domain.transact((work) => readStatuses(work, projectId, ids));
    assert.equal(statuses.length, EVENTS);
    const shown = statuses.flatMap(({ effects }) => effects);
    assert(shown.length * NOTHINGS_BYTES <= EFFECTS_BYTES_MAX * SLACK, `${shown.length}`);
    for (const { status, effects, effectsLeftOut = 0 } of statuses) {
      assert.equal(status, "PROCESSED");
      assert(effects.length > 0, "each event has its turn");
      assert(effects.length + effectsLeftOut >= ACTIONS);
    }
    const one = await domain.transact((work) => getEvent(work, projectId, ids.at(-1)!));
    assert.deepEqual([one.id, one.effects.length, one.effectsLeftOut], [ids.at(-1), ACTIONS, undefined]);
  });

  it("is a page of executions that ends at so many bytes, and the next one goes on", async () => {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const query = { limit: 100, cursor };
      const page = await domain.transact((work) => listExecutions(work, projectId, ruleId, query));
      const bytes = lists(page.executions) * NOTHINGS_BYTES;
      assert(page.executions.length === 1 || bytes <= PAGE_BYTES_MAX, `${bytes} bytes`);
      seen.push(...page.executions.map(({ eventId }) => eventId));
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    assert.deepEqual(seen, ids.toReversed());
  });

  it("is a page of events that ends at so many bytes, and the next one goes on", async () => {
    const many = await domain.addProject();
    const sent = await domain.track(
      many,
      Array.from({ length: 100 }, () => ({ user: "u", properties: { list: NOTHINGS } })),
    );
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await domain.transact((work) => listEvents(work, many, { limit: 100, cursor }));
      assert(lists(page.events) * NOTHINGS_BYTES <= PAGE_BYTES_MAX, `${page.events.length} events`);
      seen.push(...page.events.map(({ id }) => id));
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    assert.deepEqual(seen.toSorted(), sent.toSorted());
  });
});
