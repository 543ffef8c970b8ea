import assert from "node:assert/strict";
import {
  createEventTypeRecorder,
  createShapeLearner,
  EVENT_TYPES_MAX,
  mergeShapes,
  PATHS_MAX,
  SAMPLE_PLAYERS_MIN,
  SAMPLES_MAX,
} from "../../src/domain/tracking/event-type-recorder.ts";

const players = (count: number): string[] => Array.from({ length: count }, (_, i) => `player-${i}`);

describe("what is learnt of events' properties", () => {
  it("are the paths that rules can name, with every type that was seen", () => {
    const learner = createShapeLearner();
    learner.learn({ a: 1, b: { c: "x", d: [1] }, e: null, "ada@example.com": 1, "x.y": 2 }, "u");
    learner.learn({ a: "one", b: { c: true } }, "u");
    const shapes = learner.take()!;
    const types = Object.entries(shapes).map(([path, shape]) => [path, shape.types.join()]);
    assert.deepEqual(Object.fromEntries(types), {
      a: "number,string",
      "b.c": "string,boolean",
      "b.d": "array",
      e: "null",
    });
    assert.equal(learner.take(), undefined, "nothing new");
  });

  it("are values that several players have sent: what is one person's own is never among them", () => {
    const learner = createShapeLearner();
    for (const [i, player] of players(50).entries())
      learner.learn({ email: `p${i}@example.com`, plan: i % 2 === 0 ? "gold" : "free", age: i }, player);
    // Nor is it by being sent again and again.
    for (let i = 0; i < 100; i++) learner.learn({ email: "ada@example.com" }, "ada");
    const { email, plan, age } = learner.take()!;
    assert.deepEqual(email!.samples, []);
    assert.deepEqual(age!.samples, []);
    assert.deepEqual(plan!.samples, ["gold", "free"]);
  });

  it("are few and short", () => {
    const learner = createShapeLearner();
    for (const player of players(SAMPLE_PLAYERS_MIN)) {
      for (let i = 0; i < 20; i++) learner.learn({ n: i, long: "x".repeat(41) }, player);
      for (let i = 0; i < 300; i++) learner.learn({ [`k${i}`]: 1 }, player);
    }
    const shapes = learner.take()!;
    assert.equal(shapes["n"]!.samples.length, SAMPLES_MAX);
    assert.deepEqual(shapes["long"]!.samples, []);
    assert.equal(Object.keys(shapes).length, PATHS_MAX);
  });

  it("are joined with what another process has learnt", () => {
    const a = { x: { types: ["number"], samples: [1, 2, 3] } };
    const b = {
      x: { types: ["string", "number"], samples: [3, "a", "b", "c"] },
      y: { types: ["null"], samples: [] },
    };
    assert.deepEqual(mergeShapes(a, b), {
      x: { types: ["number", "string"], samples: [1, 2, 3, "a", "b"] },
      y: { types: ["null"], samples: [] },
    });
  });
});

describe("the recorder of event types", () => {
  const event = (eventType: string, properties = {}) => ({
    projectId: "p",
    externalUserId: "u",
    eventType,
    properties,
  });

  it("counts every event once, and not those of the service itself", () => {
    const recorder = createEventTypeRecorder();
    recorder.seen([event("a", { x: 1 }), event("b"), event("a"), event("system.grant")], 5);
    recorder.seen([event("a")], 9);
    const [a, b, ...others] = recorder.take().map(recorder.describe);
    assert.deepEqual([a!.name, a!.total, a!.firstMs, a!.lastMs], ["a", 3, 5, 9]);
    assert.deepEqual(a!.shapes, { x: { types: ["number"], samples: [] } });
    assert.deepEqual([b!.name, b!.total, b!.shapes], ["b", 1, undefined]);
    assert.deepEqual(others, []);
    assert.deepEqual(recorder.take(), []);
  });

  it("counts again what could not be written, together with what came meanwhile", () => {
    const recorder = createEventTypeRecorder();
    recorder.seen([event("a", { x: 1 })], 5);
    const taken = recorder.take().map(recorder.describe);
    recorder.seen([event("a")], 7);
    recorder.restore(taken);
    const [a] = recorder.take().map(recorder.describe);
    assert.deepEqual([a!.total, a!.firstMs, a!.lastMs], [2, 5, 7]);
    assert.deepEqual(a!.shapes, { x: { types: ["number"], samples: [] } });
  });

  it("counts the types of other projects however many one has", () => {
    const recorder = createEventTypeRecorder();
    const types = Array.from({ length: 5 * EVENT_TYPES_MAX }, (_, i) => event(`t${i}`));
    recorder.seen([...types, { ...event("a"), projectId: "other" }], 1);
    const taken = recorder.take();
    assert.equal(taken.filter(({ projectId }) => projectId === "p").length, 2 * EVENT_TYPES_MAX);
    assert.equal(taken.filter(({ projectId }) => projectId === "other").length, 1);
  });
});
