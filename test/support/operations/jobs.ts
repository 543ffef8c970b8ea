import type { Known } from "./operations.ts";

const ofJob = (status: "QUEUED" | "SUCCEEDED", suffix = "", body?: object): Known => ({
  call: async (side) => ({ path: `/jobs/${await side.job(status)}${suffix}`, ...(body ? { body } : {}) }),
});

export const jobOperations: Record<string, Known> = {
  listJobs: { call: () => ({ path: "/jobs?status=SUCCEEDED" }) },
  getJob: ofJob("QUEUED"),
  getJobResult: ofJob("SUCCEEDED", "/result"),
  cancelJob: ofJob("QUEUED", "/cancel", {}),
};
