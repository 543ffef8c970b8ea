import { Act } from "../ui/act.tsx";
import { Alert, Button, Group, Progress, SegmentedControl, SimpleGrid, Stack } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { call } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { readAccount, useAccount, useCan } from "../api/session.ts";
import { moment, number, words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Facts, Section, Status, Tile, When } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { Pages } from "../ui/tabs.tsx";
import { useSending } from "../ui/sending.ts";
import { Sso, Scim, Domains } from "./enterprise.tsx";

export const Settings = ({ tab = "general" }: { tab?: string }) => {
  const [, go] = useLocation();
  const can = useCan();
  return (
    <Page title="Settings">
      <Pages
        open={tab}
        onOpen={(next) => go(next === "general" ? "/settings" : `/settings/${next}`)}
        pages={{
          general: ["General", () => <General />],
          billing: can("getBillingUsage") && ["Billing and usage", () => <Billing />],
          sso: can("getSso") && ["Single sign-on", () => <Sso />],
          scim: can("getScim") && ["SCIM", () => <Scim />],
          domains: can("listCustomDomains") && ["Domains", () => <Domains />],
          mails: can("listEmailLogs") && ["Mails", () => <Mails />],
        }}
      />
    </Page>
  );
};

const General = () => {
  const tenant = useApi("getTenant");
  const { user } = useAccount();
  const can = useCan();
  return (
    <Loaded query={tenant}>
      {(data) => (
        <Stack>
          <Facts
            of={{
              Plan: words(data.plan),
              Approval: <Status value={data.approvalStatus} />,
              Projects: `${number(data.usage.projects)} of ${data.limits.projects == null ? "any number" : number(data.limits.projects)}`,
              Members: `${number(data.usage.members)} of ${data.limits.members == null ? "any number" : number(data.limits.members)}`,
            }}
          />
          {data.approvalReason && (
            <Alert color="orange" title={data.approvalReason}>
              {can("requestApproval") && (
                <Act id="requestApproval" done="Asked again" size="xs">
                  Ask for approval again
                </Act>
              )}
            </Alert>
          )}
          {can("updateTenant") && (
            <Section title="The account">
              <OperationForm
                id="updateTenant"
                initial={{ name: data.name, redirectUris: data.redirectUris }}
                first={["name", "requireSecondFactor"]}
                hidden={user.role === "OWNER" ? [] : ["redirectUris", "linkDomain", "requireSecondFactor"]}
                onDone={() => void readAccount()}
              />
            </Section>
          )}
          {can("deleteTenant") && (
            <Section title="Danger zone">
              <Group>
                <FormButton
                  id="transferOwnership"
                  label="Make somebody else the owner"
                  size="xs"
                  variant="default"
                  about="You become an administrator."
                  submit="Make owner"
                  done="Done"
                  onDone={() => void readAccount()}
                />
                <FormButton
                  id="deleteTenant"
                  label="Delete the account"
                  size="xs"
                  variant="default"
                  about={`Everything of ${data.name} is deleted in 30 days: projects, players, keys. Until then an owner can take it back.`}
                  submit="Delete in 30 days"
                  done="It is deleted in 30 days"
                />
                <Act id="restoreTenant" done="The account stays" onDone={() => void readAccount()} size="xs">
                  Take a deletion back
                </Act>
              </Group>
            </Section>
          )}
        </Stack>
      )}
    </Loaded>
  );
};

const Billing = () => {
  const usage = useApi("getBillingUsage");
  const subscription = useApi("getBillingSubscription");
  const plans = useApi("listBillingPlans");
  const can = useCan();
  const [interval, setInterval] = useState<"monthly" | "yearly">("monthly");
  const { error, isBusy, send } = useSending();
  const here = `${location.origin}/console/settings/billing`;
  const buy = (plan: string) =>
    send(async () => {
      const body = { plan: plan as "PRO", interval, successUrl: here, cancelUrl: here };
      location.assign((await call("createBillingCheckout", { body })).url);
    });
  const portal = send(async () => {
    location.assign((await call("createBillingPortal", { body: { returnUrl: here } })).url);
  });
  return (
    <Stack>
      <Loaded query={usage}>
        {({ items, periodStart, periodEnd }) => (
          <Section title={`Used from ${moment(periodStart)} to ${moment(periodEnd)}`}>
            <SimpleGrid cols={{ base: 1, sm: 2, md: 3 }}>
              {items.map(({ metric, used, limit, percent }) => (
                <Tile
                  key={metric}
                  name={words(metric)}
                  value={`${number(used)}${limit == null ? "" : ` of ${number(limit)}`}`}
                  note={
                    percent != null && (
                      <Progress
                        value={percent}
                        color={percent > 90 ? "red" : "teal"}
                        aria-label={`${percent} % used`}
                      />
                    )
                  }
                />
              ))}
            </SimpleGrid>
          </Section>
        )}
      </Loaded>
      {subscription.data && subscription.data.status !== "NONE" && (
        <Section
          title="Subscription"
          actions={
            can("createBillingPortal") && (
              <Button size="xs" onClick={() => portal()} loading={isBusy}>
                Payment and invoices
              </Button>
            )
          }
        >
          <Facts
            of={{
              Plan: words(subscription.data.plan),
              Status: <Status value={subscription.data.status} />,
              "Renews or ends": <When at={subscription.data.currentPeriodEnd} />,
              Ends: subscription.data.cancelAtPeriodEnd ? "yes, at the end of the period" : "no",
            }}
          />
        </Section>
      )}
      {error !== undefined && <ErrorNote error={error} />}
      <Loaded query={plans}>
        {({ data }) => (
          <Section
            title="Plans"
            actions={
              <SegmentedControl
                size="xs"
                data={[
                  { value: "monthly", label: "Monthly" },
                  { value: "yearly", label: "Yearly" },
                ]}
                value={interval}
                onChange={(next) => setInterval(next as typeof interval)}
                aria-label="Paid"
              />
            }
          >
            <PlainTable
              name="Plans"
              rows={data}
              keyOf={({ plan }) => plan}
              columns={[
                { title: "Plan", cell: ({ plan }) => words(plan) },
                {
                  title: "Events a month",
                  cell: ({ limits }) =>
                    limits.eventsPerMonth == null ? "any" : number(limits.eventsPerMonth),
                  isNumber: true,
                },
                {
                  title: "Projects",
                  cell: ({ limits }) => (limits.projects == null ? "any" : number(limits.projects)),
                  isNumber: true,
                },
                {
                  title: "Members",
                  cell: ({ limits }) => (limits.members == null ? "any" : number(limits.members)),
                  isNumber: true,
                  isWideOnly: true,
                },
                { title: "With", cell: ({ features }) => features.map(words).join(", "), isWideOnly: true },
                { title: "Price", cell: ({ prices }) => priceOf(prices, interval) },
              ]}
              actions={({ plan, prices }) =>
                can("createBillingCheckout") &&
                prices?.some((price: any) => price.interval === interval) &&
                plan !== usage.data?.plan && (
                  <Button size="compact-xs" onClick={() => buy(plan)()} loading={isBusy}>
                    Choose
                  </Button>
                )
              }
            />
          </Section>
        )}
      </Loaded>
    </Stack>
  );
};

const priceOf = (prices: any[] | null, interval: string): string => {
  const found = prices?.find((price) => price.interval === interval);
  if (!found) return "–";
  const amount = found.unitAmount ?? found.amount;
  return new Intl.NumberFormat(undefined, {
    style: "currency",
    currency: (found.currency ?? "eur").toUpperCase(),
  }).format(amount / 100);
};

const Mails = () => (
  <List
    id="listEmailLogs"
    name="Mails"
    filters={["status", "template", "email"]}
    empty={<Empty title="No mails yet" />}
    columns={[
      { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
      { title: "To", cell: ({ to }) => to },
      { title: "Subject", cell: ({ subject }) => subject },
      { title: "Status", cell: ({ status }) => <Status value={status} /> },
    ]}
  />
);
