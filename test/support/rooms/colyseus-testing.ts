import type { Server } from "@colyseus/core";
import type { ColyseusTestServer } from "@colyseus/testing";
import type { TestApp } from "../app/app.ts";

/**
 * Colyseus's own view of a running server: its rooms and an SDK. What its packages load on the way listens
 * for unhandled rejections and would hide ours, so those listeners are taken off again.
 */
export const colyseusOf = async ({ port }: TestApp): Promise<ColyseusTestServer> => {
  const ours = new Set(process.listeners("unhandledRejection"));
  const testing = await import("@colyseus/testing");
  for (const listener of process.listeners("unhandledRejection")) {
    if (!ours.has(listener)) process.off("unhandledRejection", listener);
  }
  // All that it reads of a server is the port: rooms it finds in the process.
  return new testing.ColyseusTestServer({ port } as unknown as Server);
};
