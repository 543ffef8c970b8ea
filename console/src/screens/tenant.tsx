import { Alert, Progress, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import type { Row } from "../api/client.ts";
import { readAccount, useAccount, useCan, useRead } from "../api/hooks.ts";
import { moment, number, words } from "../format.ts";
import { act, form, OperationForm } from "../ui/operations.tsx";
import { Page, Part, Section, Tiles, When } from "../ui/page.tsx";
import { Rows } from "../ui/table.tsx";
import { Domains, Sso } from "./enterprise.tsx";
import { Mails } from "./logs.tsx";
import { Facts } from "../ui/cells.tsx";

export const Settings = ({ tab = "general" }: { tab?: string }) => {
  const can = useCan();
  return (
    <Page
      title="Settings"
      at="/settings"
      open={tab}
      pages={{
        general: ["General", () => <General />],
        billing: can("getBillingUsage") && ["Billing and usage", () => <Billing />],
        sso: can("getSso") && ["Single sign-on", () => <Sso />],
        domains: can("listCustomDomains") && ["Domains", () => <Domains />],
        mails: can("listEmailLogs") && ["Mails", () => <Mails id="listEmailLogs" />],
      }}
    />
  );
};

const General = () => {
  const { user } = useAccount();
  const can = useCan();
  const tenant = useRead("getTenant");
  const { name, approvalReason, usage, limits, deleteAfter } = tenant;
  const changed = () => void readAccount();
  return (
    <Stack>
      <Facts
        of={tenant}
        show={{
          Plan: "plan",
          Approval: "approvalStatus",
          Projects: () => `${number(usage.projects)} of ${limitText(limits.projects, "any number")}`,
          ...(deleteAfter && { "Will be deleted": "deleteAfter" }),
          Members: () => `${number(usage.members)} of ${limitText(limits.members, "any number")}`,
        }}
      />
      {approvalReason && (
        <Alert color="orange" title={approvalReason}>
          {act("requestApproval", "Ask for approval again", { done: "Asked again" })}
        </Alert>
      )}
      {can("updateTenant") && (
        <Section title="The account">
          <OperationForm
            id="updateTenant"
            initial={user.role === "OWNER" ? tenant : { name }}
            first={["name", "requireSecondFactor"]}
            hidden={user.role === "OWNER" ? [] : ["redirectUris", "linkDomain", "requireSecondFactor"]}
            onDone={changed}
          />
        </Section>
      )}
      {can("deleteTenant") && (
        <Section
          title="Danger zone"
          actions={[
            form("transferOwnership", "Make somebody else the owner", {
              about: "You become an administrator.",
              submit: "Make owner",
              onDone: changed,
            }),
            deleteAfter
              ? act("restoreTenant", "Take the deletion back", { done: "The account stays", onDone: changed })
              : form("deleteTenant", "Delete the account", {
                  about: `Everything of ${name} is deleted in 30 days: projects, players, keys. Until then an owner can take it back.`,
                  submit: "Delete in 30 days",
                  done: "It is deleted in 30 days",
                }),
          ]}
        />
      )}
    </Stack>
  );
};

const limitText = (limit: number | null | undefined, none: string): string =>
  limit == null ? none : number(limit);

const Billing = () => {
  const { items, periodStart, periodEnd, plan } = useRead("getBillingUsage");
  return (
    <Stack>
      <Section title={`Used from ${moment(periodStart)} to ${moment(periodEnd)}`}>
        <Tiles columns={3} of={Object.fromEntries(items.map((one) => [words(one.metric), usedOf(one)]))} />
      </Section>
      <Part lines={3}>
        <Subscription />
      </Part>
      <Rows
        section="Plans"
        id="listBillingPlans"
        columns={{
          Plan: "plan",
          "Events a month": ({ limits }) => limitText(limits.eventsPerMonth, "any"),
          Projects: ({ limits }) => limitText(limits.projects, "any"),
          Members: ({ limits }) => limitText(limits.members, "any"),
          With: ({ features }) => features.map(words).join(", "),
          Price: ({ prices }) => prices?.map(priceOf).join(", "),
        }}
        right={["Events a month", "Projects", "Members"]}
        wide={["Members", "With"]}
        actions={(row) =>
          row.plan !== plan &&
          row.prices?.map(({ interval }) =>
            act("createBillingCheckout", `Pay ${interval}`, {
              body: { plan: row.plan as "PRO", interval, successUrl: HERE, cancelUrl: HERE },
              onDone: leave,
              isMain: true,
            }),
          )
        }
      />
    </Stack>
  );
};

const usedOf = ({ used, limit, percent }: any): [string, ReactNode] => [
  `${number(used)}${limit == null ? "" : ` of ${number(limit)}`}`,
  percent != null && (
    <Progress value={percent} color={percent > 90 ? "red" : "teal"} aria-label={`${percent} % used`} />
  ),
];

/** Where the payment's page leads back to. */
const HERE = `${location.origin}/console/settings/billing`;
const leave = ({ url }: { url: string }) => location.assign(url);

const Subscription = () => {
  const subscription = useRead("getBillingSubscription");
  if (subscription.status === "NONE") return null;
  return (
    <Section
      title="Subscription"
      actions={act("createBillingPortal", "Payment and invoices", {
        body: { returnUrl: HERE },
        onDone: leave,
        isMain: true,
      })}
    >
      <Facts
        of={subscription}
        show={{
          Plan: "plan",
          Status: "status",
          "Renews or ends": ({ currentPeriodEnd }) => <When at={currentPeriodEnd} />,
          Ends: ({ cancelAtPeriodEnd }) => (cancelAtPeriodEnd ? "yes, at the end of the period" : "no"),
        }}
      />
    </Section>
  );
};

type Price = NonNullable<Row<"listBillingPlans">["prices"]>[number];

const priceOf = ({ currency, unitAmount, interval }: Price): string => {
  const amount = new Intl.NumberFormat(undefined, { style: "currency", currency }).format(unitAmount / 100);
  return `${amount} ${interval}`;
};
