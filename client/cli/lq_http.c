#include "lq_http.h"

#include "lq_check.h"
#include "lq_mem.h"
#include "lq_reply.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_MS    2000
#define POLL_MS       1000
#define ANSWER_MAX    ((size_t)1 << 20) /* of bytes; a status is a few thousand */
#define URL_MAX_BYTES 1024

/* ---- Setting up. */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context)
{
    struct lq_http_call *call = context;
    size_t len = size * count;
    if (len > ANSWER_MAX - call->len) {
        return 0; /* fails the transfer */
    }
    call->text = lq_realloc(call->text, call->len + len + 1, 1);
    memcpy(call->text + call->len, bytes, len);
    call->len += len;
    return len;
}

#define SET(curl, option, value)                                                                   \
    LQ_CHECK(curl_easy_setopt((curl), CURLOPT_##option, (value)) == CURLE_OK)

static CURL *open_call(const char *url, struct lq_http_call *call, struct curl_slist *headers)
{
    CURL *curl = curl_easy_init();
    LQ_CHECK(curl != NULL);
    SET(curl, URL, url);
    SET(curl, NOPROXY, "*"); /* an admin interface is not behind the proxy of the environment */
    SET(curl, NOSIGNAL, 1L);
    SET(curl, CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(curl, TIMEOUT_MS, (long)LQ_HTTP_MS);
    SET(curl, WRITEFUNCTION, on_bytes);
    SET(curl, WRITEDATA, call);
    SET(curl, PRIVATE, call);
    SET(curl, USERAGENT, "loquet/" LOQUET_VERSION);
    if (call->body != NULL) {
        SET(curl, POSTFIELDS, call->body);
        SET(curl, HTTPHEADER, headers);
    }
    return curl;
}

/* ---- Results. */

static const char *words_for(CURLcode code, CURL *curl)
{
    long number = 0;
    (void)curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return "no address for this host";
    case CURLE_COULDNT_CONNECT:
        return number == 0 ? "cannot connect" : strerrordesc_np((int)number);
    case CURLE_OPERATION_TIMEDOUT:
        return "no answer in time";
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return "closed the connection without an answer";
    case CURLE_PARTIAL_FILE:
        return "closed the connection in the middle of its answer";
    case CURLE_WRITE_ERROR:
        return "answered without end";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        return "does not speak HTTP";
    default:
        return curl_easy_strerror(code);
    }
}

static bool is_unsent(CURLcode code)
{
    return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
           code == CURLE_URL_MALFORMAT;
}

static void finish(CURL *curl, CURLcode code)
{
    struct lq_http_call *call;
    LQ_CHECK(curl_easy_getinfo(curl, CURLINFO_PRIVATE, (char **)&call) == CURLE_OK);
    if (code != CURLE_OK) {
        const char *words = words_for(code, curl);
        call->maybe = !is_unsent(code);
        (void)snprintf(call->reason, sizeof call->reason, "%s", words == NULL ? "?" : words);
        return;
    }
    LQ_CHECK(curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &call->status) == CURLE_OK);
    call->json = call->text == NULL ? NULL : lq_reply_parse(call->text, call->len);
    if (call->json == NULL) {
        (void)snprintf(call->reason, sizeof call->reason,
                       "answered %ld, but no JSON: is that a loquetd's admin port?", call->status);
    }
}

static void drive(CURLM *multi)
{
    int running = 1, left;
    const CURLMsg *message;
    while (running > 0) {
        LQ_CHECK(curl_multi_perform(multi, &running) == CURLM_OK);
        while ((message = curl_multi_info_read(multi, &left)) != NULL) {
            finish(message->easy_handle, message->data.result);
        }
        if (running > 0) {
            LQ_CHECK(curl_multi_poll(multi, NULL, 0, POLL_MS, NULL) == CURLM_OK);
        }
    }
}

void lq_http_perform(const struct lq_endpoints *endpoints, size_t first, const char *path,
                     struct lq_http_call *calls, size_t n)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    CURLM *multi = curl_multi_init();
    CURL *curls[LQ_ENDPOINTS_MAX];
    LQ_CHECK(multi != NULL && headers != NULL && n <= LQ_ENDPOINTS_MAX);
    for (size_t i = 0; i < n; i++) {
        char address[LQ_ENDPOINT_TEXT_MAX], url[URL_MAX_BYTES];
        lq_endpoints_text(endpoints, first + i, address, sizeof address);
        (void)snprintf(url, sizeof url, "http://%s%s", address, path);
        calls[i] = (struct lq_http_call){.body = calls[i].body};
        curls[i] = open_call(url, &calls[i], headers);
        LQ_CHECK(curl_multi_add_handle(multi, curls[i]) == CURLM_OK);
    }
    drive(multi);
    for (size_t i = 0; i < n; i++) {
        LQ_CHECK(curl_multi_remove_handle(multi, curls[i]) == CURLM_OK);
        curl_easy_cleanup(curls[i]);
    }
    (void)curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
}

void lq_http_done(struct lq_http_call *call)
{
    lq_free(call->text);
    json_decref(call->json);
    call->text = NULL;
    call->json = NULL;
}
