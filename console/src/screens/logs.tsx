import { words } from "../format.ts";
import { act } from "../ui/operations.tsx";
import { Json } from "../ui/page.tsx";
import { List } from "../ui/table.tsx";

/** What was mailed: by the team's tenant, or by the whole platform. */
export const Mails = ({ id }: { id: "listEmailLogs" | "listPlatformEmailLogs" }) => (
  <List
    id={id}
    name="Mails"
    filters={["status", "template", "email"]}
    empty="No mails yet"
    columns={{ When: "createdAt", To: "to", Subject: "subject", Status: "status" }}
    actions={(mail) =>
      mail.status === "FAILED" &&
      act("resendEmail", "Send again", { path: { emailLogId: mail.id }, done: "It is sent again" })
    }
  />
);

type AuditProps = {
  id: "listAuditLog" | "listPlatformAuditLog";
  filters: string[];
  /** What is known of who did it, or of what it was done to, by its id. */
  names?: ReadonlyMap<string, string>;
};

/** What an entry itself calls what it is about. */
const nameIn = ({ name, key, email, domain }: any): string | undefined => name ?? key ?? email ?? domain;

/** Who changed what, from where. */
export const AuditList = ({ id, filters, names = new Map() }: AuditProps) => {
  const who = (actor: string) => {
    const [kind = "", of] = actor.split(":");
    if (of === undefined) return words(kind);
    const name = names.get(of) ?? of;
    return kind === "user" && name !== of ? name : `${words(kind)} ${name}`;
  };
  return (
    <List
      id={id}
      name="Audit log"
      filters={filters}
      dialog={["Entry", (entry) => <Json value={entry} />]}
      columns={{
        When: "createdAt",
        Who: ({ actor }) => who(actor),
        Did: "action",
        To: ({ target, data }) =>
          target && `${words(target.type)} ${names.get(target.id) ?? nameIn(data) ?? target.id}`,
        From: "ip",
      }}
      wide={["To", "From"]}
    />
  );
};
