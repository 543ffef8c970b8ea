/** Console roles, exactly as on the wire. */
export const ROLES = ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER", "VIEWER"] as const;
export type Role = (typeof ROLES)[number];

/** Who makes a request, as established from its credentials and nothing else. */
export type Caller =
  | { kind: "anonymous" }
  | { kind: "user"; userId: string; tenantId: string; role: Role }
  | {
      kind: "key";
      keyId: string;
      tenantId: string;
      /** The project the key acts on: for a `svc_test_` key, the sandbox of `ownerProjectId`. */
      projectId: string;
      /** The project that the key was made for and that `ApiKey.projectId` shows. */
      ownerProjectId: string;
      scopes: readonly string[];
      isTest: boolean;
    };

/** A name for audit fields such as `createdBy` and `cause.actor`. */
export const actorOf = (caller: Caller): string =>
  caller.kind === "user"
    ? `user:${caller.userId}`
    : caller.kind === "key"
      ? `key:${caller.keyId}`
      : "anonymous";
