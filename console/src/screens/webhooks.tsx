import { Page } from "../ui/page.tsx";
export const Webhooks = () => <Page title="Webhooks">{null}</Page>;
export const WebhookPage = () => <Page title="WebhookPage">{null}</Page>;
