"use strict";
// Swagger UI with this server's own document. A signed-in browser sends its cookie by itself.
window.addEventListener("load", () => {
  window.SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger", deepLinking: true, validatorUrl: null });
});
