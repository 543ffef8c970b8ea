import { unique } from "./bodies.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

const conditions = () => ({
  all: [
    { type: "player_property", field: "level", op: "gte", value: 2 },
    { none: [{ type: "player_property", field: "tags", op: "contains", value: "staff" }] },
  ],
});
const fixed = () => ({ key: unique("segment"), name: "A segment", description: "Text", kind: "STATIC" });
const dynamic = () => ({
  key: unique("segment"),
  name: "Of level 2",
  kind: "DYNAMIC",
  definition: conditions(),
});

const aSegment = (side: Side): Promise<string> => side.make("/segments", fixed());

export const segmentOperations: Record<string, Known> = {
  listSegments: { call: () => ({ path: "/segments" }) },
  createSegment: { call: () => ({ path: "/segments", body: fixed() }), also: [dynamic] },
  getSegment: { call: async (side) => ({ path: `/segments/${await aSegment(side)}` }) },
  updateSegment: {
    call: async (side) => ({
      path: `/segments/${await side.make("/segments", dynamic())}`,
      body: { name: "New", description: null, version: 1, definition: conditions() },
    }),
  },
  archiveSegment: { call: async (side) => ({ path: `/segments/${await aSegment(side)}` }) },
  previewSegment: { call: () => ({ path: "/segments/preview", body: { definition: conditions() } }) },
  listSegmentMembers: {
    call: async (side) => {
      const at = new Date(Date.now() - 60_000).toISOString();
      return { path: `/segments/${await aSegment(side)}/members?at=${at}` };
    },
  },
  addSegmentMembers: {
    call: async (side) => ({
      path: `/segments/${await aSegment(side)}/members`,
      body: { playerIds: [await side.player()] },
    }),
  },
  removeSegmentMembers: {
    call: async (side) => ({
      path: `/segments/${await aSegment(side)}/members`,
      body: { playerIds: [await side.player()] },
    }),
  },
  listPlayerSegments: { call: async (side) => ({ path: `/players/${await side.player()}/segments` }) },
};
