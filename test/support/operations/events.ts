import { unique } from "./bodies.ts";
import type { Known } from "./operations.ts";

const schema = {
  type: "object",
  required: ["amount"],
  properties: { amount: { type: "number", minimum: 0 }, kind: { enum: ["a", "b"] } },
};
const put = { schema, enforcement: "WARN" };

export const eventOperations: Record<string, Known> = {
  retryEvent: { call: async (side) => ({ path: `/events/${await side.failedEvent()}/retry`, body: {} }) },
  revertEvent: {
    call: async (side) => ({
      path: `/events/${await side.event()}/revert`,
      body: { reason: "swept", onShortfall: "CLAMP" },
    }),
  },
  revertEvents: {
    call: async (side) => ({
      path: "/events/revert",
      body: {
        filter: { eventIds: [await side.event()], to: new Date().toISOString() },
        reason: "swept",
        onShortfall: "REJECT",
        dryRun: true,
      },
    }),
  },
  listEventTypes: { call: () => ({ path: "/event-types" }) },
  getEventType: {
    call: async (side) => {
      const name = unique("type");
      await side.putEventType(name, put);
      return { path: `/event-types/${name}` };
    },
  },
  putEventType: {
    call: () => ({ path: `/event-types/${unique("type")}`, body: put }),
    also: [() => ({ schema: null, enforcement: "OFF" })],
  },
};
