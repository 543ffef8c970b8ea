import { apiKey, projectFields } from "./bodies.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

const ofKeys = (side: Side): string => `/projects/${side.tenant.projectId}/api-keys`;

/** An operation on one key; another project's key is not found under the own project. */
const ofKey = (suffix = "", body?: unknown): Known => ({
  call: async (side) => ({ path: `${ofKeys(side)}/${await side.apiKey()}${suffix}`, body }),
  foreign: async (own, other) => [{ path: `${ofKeys(own)}/${await other.apiKey()}${suffix}`, body }],
});

/** Projects, their sandboxes and their API keys. */
export const keyOperations: Record<string, Known> = {
  listProjects: { call: () => ({ path: "/projects" }) },
  createProject: { call: () => ({ path: "/projects", body: { name: "A game", ...projectFields } }) },
  getProject: { call: ({ tenant }) => ({ path: `/projects/${tenant.projectId}` }) },
  updateProject: {
    call: ({ tenant }) => ({ path: `/projects/${tenant.projectId}`, body: projectFields }),
    also: [() => ({ allowedOrigins: ["https://game.example.com"], name: "Another name" })],
  },
  deleteProject: { call: async (side) => ({ path: `/projects/${await side.project()}` }) },
  createSandbox: { call: async (side) => ({ path: `/projects/${await side.project()}/sandbox`, body: {} }) },
  syncSandbox: {
    call: async (side) => ({ path: `/projects/${await side.project()}/sandbox/sync`, body: {} }),
  },
  getSandboxClock: { call: async (side) => ({ path: `${await side.sandbox()}/clock` }) },
  setSandboxClock: {
    call: async (side) => ({ path: `${await side.sandbox()}/clock`, body: { reset: true } }),
    also: [() => ({ advance: "PT1S" })],
  },

  listApiKeys: { call: (side) => ({ path: ofKeys(side) }) },
  createApiKey: { call: (side) => ({ path: ofKeys(side), body: apiKey() }) },
  getApiKey: ofKey(),
  updateApiKey: ofKey("", { ...apiKey(), environment: undefined, name: "Renamed" }),
  rotateApiKey: ofKey("/rotate", { gracePeriodSeconds: 60, expiresAt: null }),
  revokeApiKey: ofKey(),
};
