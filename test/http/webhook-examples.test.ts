import assert from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { CUSTOM_TYPE, eventTypes } from "../../src/domain/delivery/webhooks/catalogue.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { problemsOf } from "../support/domain/event-shapes.ts";
import { must } from "../support/http/client.ts";

/** What tests make happen of each type is held against its schema when the server of the tests stops. */
describe("events of every type that there is", () => {
  const available = eventTypes().filter(({ isAvailable }) => isAvailable);

  it("have an example that is as their schema says", () => {
    for (const { type, example } of available)
      assert.deepEqual(example && problemsOf(type, example), [], type);
  });

  it("can be tried: tests of every type fit the schema that is published", async () => {
    const api = await startApp();
    const { key } = await aTenant(api);
    const ajv = new Ajv2020();
    addFormats.default(ajv);
    for (const { type, schema } of available) {
      const eventType = type === CUSTOM_TYPE ? "custom.order.paid" : type;
      const { event } = must(await api.post("/api/v1/webhook-events/test", { eventType }, { key }), 201);
      assert.equal(event.data.test, true);
      assert.ok(ajv.validate(schema!, event), `${type}: ${ajv.errorsText()}`);
    }
  });
});
