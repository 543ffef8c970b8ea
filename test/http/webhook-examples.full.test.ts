import assert from "node:assert/strict";
import addFormats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { z } from "zod";
import {
  CUSTOM_TYPE,
  eventTypes,
  shapeOf,
  type WebhookEvent,
} from "../../src/domain/delivery/webhooks/catalogue/catalogue.ts";
import { NOISY_TYPES } from "../../src/domain/kernel/events/event-types.ts";
import { startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aGame } from "../support/app/game.ts";
import { startReceiver } from "../support/webhooks/receiver.ts";
import {
  ADVENTURE_SCENARIOS,
  BOARD_SCENARIOS,
  PLAYER_SCENARIOS,
  QUEST_SCENARIOS,
  STREAK_SCENARIOS,
} from "../support/webhooks/scenarios-game.ts";
import {
  EVENT_SCENARIOS,
  REPORT_SCENARIOS,
  ROOM_SCENARIOS,
  type Stage,
} from "../support/webhooks/scenarios-events.ts";
import { madeOnce } from "../support/made.ts";

const SCENARIOS = [
  ...PLAYER_SCENARIOS,
  ...STREAK_SCENARIOS,
  ...QUEST_SCENARIOS,
  ...ADVENTURE_SCENARIOS,
  ...BOARD_SCENARIOS,
  ...ROOM_SCENARIOS,
  ...EVENT_SCENARIOS,
  ...REPORT_SCENARIOS,
];
const AVAILABLE = eventTypes().filter(({ isAvailable }) => isAvailable);
const entryOf = (type: string): string => (type.startsWith("custom.") ? CUSTOM_TYPE : type);

const ajv = new Ajv2020({ allErrors: true });
addFormats.default(ajv);

/** What of an event is not as the schema has it; none when it fits. */
const problemsOf = (schema: object, event: unknown): string[] => {
  const validate = ajv.compile(schema);
  if (validate(event)) return [];
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
};
/** The shape with nothing in it that it does not name. */
const closedSchema = (type: string): object => z.toJSONSchema(shapeOf(type)!, { io: "output" });

describe("events of every type that there is", function () {
  /** What arrived, by entry of the catalogue; each event once. */
  const arrived = new Map<string, WebhookEvent[]>();

  const look = (): void => {
    arrived.clear();
    const events = new Map<string, WebhookEvent>();
    for (const { body } of receiver.received) {
      const event = JSON.parse(body.toString()) as WebhookEvent;
      events.set(event.id, event);
    }
    for (const [type, ofType] of Map.groupBy(events.values(), (event) => entryOf(event.type)))
      arrived.set(type, ofType);
  };
  const heard = async (type: string, count = 1): Promise<void> => {
    const isHeard = (): boolean => {
      look();
      return (arrived.get(type)?.length ?? 0) >= count;
    };
    await eventually(isHeard, { timeoutMs: 60_000, label: `${count} of ${type} arrived` });
  };

  const api = madeOnce(startApp);
  const game = madeOnce(() => aGame(api));
  const receiver = madeOnce(
    () => startReceiver(),
    (made) => made.close(),
  );
  before(async () => {
    const body = { url: receiver.url, events: ["*", ...NOISY_TYPES] };
    must(await api.post("/api/v1/webhooks", body, { token: game.tenant.token }), 201);
    const change = async (statement: Parameters<Stage["change"]>[0]): Promise<void> =>
      void (await api.app.transact(({ db }) => statement.execute(db)));
    for (const scenario of SCENARIOS) await scenario.play({ api, game, change, heard });
  });

  it("arrive, but for those that the service does not bring about yet", async () => {
    const told = new Set(SCENARIOS.flatMap(({ tells }) => tells));
    const without = eventTypes().filter(({ type }) => !told.has(type));
    assert.deepEqual(
      without.map(({ type }) => type),
      eventTypes().flatMap(({ type, isAvailable }) => (isAvailable ? [] : [type])),
    );
    for (const { type } of without)
      assert.match(type, /^(quest\.|raffle\.drawn$|leaderboard\.league_moved$)/);
    const missing = (): string[] => [...told].filter((type) => !arrived.has(type));
    await eventually(() => (look(), missing().length === 0), { timeoutMs: 60_000 }).catch(() => undefined);
    assert.deepEqual(missing(), [], "did not arrive");
    const unknown = [...arrived.keys()].filter((type) => !AVAILABLE.some((info) => info.type === type));
    assert.deepEqual(unknown, [], "are in no catalogue");
  });

  it("are as their schema says, with nothing besides", () => {
    const problems = [...arrived].flatMap(([type, events]) => {
      const schema = closedSchema(type);
      return events.flatMap((event) => problemsOf(schema, event).map((problem) => `${type} ${problem}`));
    });
    assert.deepEqual([...new Set(problems)], []);
  });

  it("have an example that is as their schema says", () => {
    for (const { type, example } of AVAILABLE) {
      assert.deepEqual(example && problemsOf(closedSchema(type), example), [], type);
    }
  });

  it("can be tried: tests of every type fit the schema that is published", async () => {
    for (const { type, schema } of AVAILABLE) {
      const eventType = type === CUSTOM_TYPE ? "custom.order.paid" : type;
      const { key } = game.tenant;
      const { event } = must(await api.post("/api/v1/webhook-events/test", { eventType }, { key }), 201);
      assert.equal(event.data.test, true);
      assert.deepEqual(problemsOf(schema!, event), [], type);
    }
  });
});
