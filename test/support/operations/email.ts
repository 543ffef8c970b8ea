import type { Known } from "./operations.ts";

export const emailOperations: Record<string, Known> = {
  listEmailLogs: { call: () => ({ path: "/email-logs?status=QUEUED&template=verify-email" }) },
};
