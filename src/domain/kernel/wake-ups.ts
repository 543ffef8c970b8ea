/** Wakes those who wait for rows of a commit, by what they wait for. */
export type WakeUps = {
  outbox(parts: Iterable<number>): void;
  events(parts: Iterable<number>): void;
  jobs(): void;
  webhooks(ids: Iterable<string>): void;
};

/** For contexts without consumers. */
export const NO_WAKE_UPS: WakeUps = {
  outbox: () => undefined,
  events: () => undefined,
  jobs: () => undefined,
  webhooks: () => undefined,
};
